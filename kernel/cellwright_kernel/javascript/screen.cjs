// `screen`: what a cell sees of the desktop, as in Python; each call gives a promise.
//
// Flows in: calls. Flows out: requests to the kernel's Python side, which has the display, and its answers. Decided here:
// the forms of JavaScript: milliseconds, `{ x, y, width, height }`, a PNG as a Buffer, names in camel case beside Python's.
'use strict';

const { afterwards } = require('./timers.cjs');

class Screen {
  #channel;
  #origins;
  #calls = new Map();
  #last = 0;

  constructor(channel, origins) {
    this.#channel = channel;
    this.#origins = origins;
    const screen = {
      /** A picture of the screen or a region, as a PNG: display(await screen.shot()). */
      shot: async (region) => Buffer.from(await this.#ask('shot', [sides(region)]), 'base64'),
      /** The same of a region, `factor` times as large. */
      zoom: async (region, factor = 2) => Buffer.from(await this.#ask('zoom', [sides(region), factor]), 'base64'),
      /** Wait until nothing is drawn and no page loads, fetches or animates; says why it returned. */
      settle: (timeout) => this.#ask('settle', [seconds(timeout, 5_000)]),
      /** Where the screen differs from the last look; null when nowhere. */
      changed: () => this.#ask('changed', []),
      /** Where a text stands: a list of { text, box, center, confidence }. */
      findText: (text, region) => this.#ask('find_text', [text, sides(region)]),
      /** The first of them, once it is there. */
      waitText: (text, timeout, region) => this.#ask('wait_text', [text, seconds(timeout, 10_000), sides(region)]),
    };
    Object.assign(screen, { find_text: screen.findText, wait_text: screen.waitText });
    Object.defineProperty(globalThis, 'screen', { value: screen, writable: true, configurable: true, enumerable: true });
  }

  /** An answer from the Python side. */
  take({ call, value, error }) {
    const asked = this.#calls.get(call);
    this.#calls.delete(call);
    if (!asked) return;
    if (!error) return asked.resolve(value);
    asked.failure.name = error.name;
    asked.failure.message = error.message;
    asked.reject(asked.failure);
  }

  #ask(name, args) {
    const call = ++this.#last;
    const failure = new Error(''); // made here, so that its stack shows the cell's line
    const promise = new Promise((resolve, reject) => this.#calls.set(call, { resolve, reject, failure }));
    this.#channel.send({ type: 'screen', call, name, arguments: args });
    return afterwards(this.#origins, promise);
  }
}

/** `{ x, y, width, height }` or `[left, top, width, height]` -> the latter. */
function sides(region) {
  if (region === undefined || region === null || Array.isArray(region)) return region ?? null;
  const { x, y, width, height } = region;
  return [x, y, width, height];
}

/** Milliseconds, or Playwright's `{ timeout }`. */
function seconds(timeout, usual) {
  return (typeof timeout === 'object' && timeout ? (timeout.timeout ?? usual) : (timeout ?? usual)) / 1_000;
}

module.exports = { Screen };
