// What a cell, or the kernel for it, asks of the kernel's Python side, which has the display: each call gives a promise.
//
// Flows in: calls of a helper. Flows out: requests, and their answers as promises. Decided here: that a call which fails does
// so with the Python side's words and the cell's own line; and that its promise never settles once that cell was interrupted.
'use strict';

const { afterwards } = require('./timers.cjs');

const { Error, Map, Object, Promise } = globalThis;

class Asks {
  #channel;
  #origins;
  #calls = new Map();
  #last = 0;

  constructor(channel, origins) {
    this.#channel = channel;
    this.#origins = origins;
  }

  /** `helper` is `screen`, `clipboard`, `ui` or `silent_pages`, `name` one of its calls; a failure made here has the cell's line in its stack. */
  ask(helper, name, args, failure = new Error('')) {
    const call = ++this.#last;
    const promise = new Promise((resolve, reject) => this.#calls.set(call, { resolve, reject, failure }));
    this.#channel.send({ type: 'ask', helper, call, name, arguments: args });
    return afterwards(this.#origins, promise);
  }

  /** One promise of what takes several calls; `work` gets the failure that each of them is to have. */
  whole(work) {
    return afterwards(this.#origins, work(new Error('')));
  }

  /** An answer from the Python side. */
  take({ call, value, error }) {
    const asked = this.#calls.get(call);
    if (!asked) return;
    if (error) {
      asked.failure.name = error.name;
      asked.failure.message = error.message;
      asked.reject(asked.failure);
    } else {
      asked.resolve(value);
    }
    this.#calls.delete(call); // last: what a stop hits is said again
  }
}

/** Give cells a helper under its name, which they may use for something else. */
function offer(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
}

module.exports = { Asks, offer };
