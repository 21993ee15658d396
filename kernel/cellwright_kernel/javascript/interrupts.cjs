// An interrupt -> the running cell stops, and nothing else does.
//
// Flows in: serial numbers of cells, on a pipe that a thread reads. Flows out: a call for a cell that waits; an exception
// that cannot be caught for a cell that computes. Decided here: ask first. A thread that is busy for 50 ms is stopped from
// outside; one that is free hears the question, so the stop never hits what comes next.
'use strict';

const path = require('node:path');
const { Worker } = require('node:worker_threads');

const HEARD = 0;
const ASKED = 1;

class Interrupts {
  #state = new Int32Array(new SharedArrayBuffer(8));

  constructor(controlFd, onInterrupt) {
    const workerData = { fd: controlFd, state: this.#state };
    const worker = new Worker(path.join(__dirname, 'watch.cjs'), { workerData, execArgv: [], env: {} });
    worker.on('message', ({ ticket, serial }) => {
      Atomics.store(this.#state, HEARD, ticket);
      Atomics.notify(this.#state, HEARD);
      if (serial) onInterrupt(serial);
    });
  }

  /** Whether the cell, or a later one, has been interrupted, even if this thread was too busy to hear of it. */
  wasAsked(serial) {
    return Atomics.load(this.#state, ASKED) >= serial;
  }
}

module.exports = { Interrupts, HEARD, ASKED };
