// `screen`: what a cell sees of the desktop, as in Python; each call gives a promise.
//
// Flows in: calls. Flows out: requests to the kernel's Python side, which has the display, and its answers. Decided here:
// the forms of JavaScript: milliseconds, `{ x, y, width, height }`, a PNG as a Buffer, names in camel case beside Python's.
'use strict';

const { offer } = require('./asks.cjs');

function installScreen(asks) {
  const ask = (name, args) => asks.ask('screen', name, args);
  const screen = {
    /** A picture of the screen or a region, as a PNG: display(await screen.shot()). */
    shot: async (region) => Buffer.from(await ask('shot', [sides(region)]), 'base64'),
    /** The same of a region, `factor` times as large. */
    zoom: async (region, factor = 2) => Buffer.from(await ask('zoom', [sides(region), factor]), 'base64'),
    /** Wait until nothing is drawn and no page loads, fetches or animates; says why it returned. */
    settle: (timeout) => ask('settle', [seconds(timeout, 5_000)]),
    /** Where the screen differs from the last look; null when nowhere. */
    changed: () => ask('changed', []),
    /** Where a text stands: a list of { text, box, center, confidence }. */
    findText: (text, region) => ask('find_text', [text, sides(region)]),
    /** The first of them, once it is there. */
    waitText: (text, timeout, region) => ask('wait_text', [text, seconds(timeout, 10_000), sides(region)]),
  };
  offer('screen', Object.assign(screen, { find_text: screen.findText, wait_text: screen.waitText }));
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

module.exports = { installScreen };
