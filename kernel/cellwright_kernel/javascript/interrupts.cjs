// Requests, and interrupts -> the running cell stops, and nothing else does.
//
// Flows in: what a thread reads from the pipes, and cells that come straight. Flows out: requests; a call for a cell that waits;
// an exception that cannot be caught for a cell that computes. Decided here: ask first. A thread that is busy for 50 ms is stopped
// from outside; one that is free hears the question. What the thread says counts once, and in order, whatever a stop has thrown away.
'use strict';

const net = require('node:net');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { own } = require('./own.cjs');

const { Int32Array, SharedArrayBuffer } = globalThis;
const { load, store } = Atomics;

const HEARD = 0;
const ASKED = 1;
const STOPPED = 2;
const LOADING = 3;
const PIPE_BYTES = 64 * 1024; // all that it may hold comes at once

const { parse } = JSON;

class Interrupts {
  #state = new Int32Array(new SharedArrayBuffer(16));
  #worker;
  #cellsFd;
  #cells;

  /** The thread takes some 30 ms to start; until it is there, nothing is read. */
  constructor(requestsFd, controlFd, cellsFd) {
    this.#cellsFd = cellsFd;
    const workerData = { requestsFd, controlFd, state: this.#state };
    this.#worker = new Worker(path.join(__dirname, 'watch.cjs'), {
      workerData, execArgv: [], env: {}, resourceLimits: { codeRangeSizeMb: 16 },
    });
  }

  /**
   * A cell may be passed on twice: where a stop may have hit what was being done about it, it is said again. Where cells
   * come straight there are empty lines as well: each only wakes this process.
   */
  listen(onRequest, onInterrupt) {
    const buffer = Buffer.alloc(PIPE_BYTES);
    const callback = (length) => {
      const lines = own.split(buffer.utf8Slice(0, length), '\n');
      for (let at = 0; at < lines.length; at++) if (lines[at]) onRequest(parse(lines[at]));
      return true;
    };
    this.#cells = new net.Socket({ fd: this.#cellsFd, readable: true, writable: false, onread: { buffer, callback } });
    this.#worker.on('message', ({ ticket, request, interrupt }) => {
      if (ticket !== load(this.#state, HEARD) + 1) return; // heard before, or one before it will be said again
      try {
        if (request) onRequest(request);
        else onInterrupt(interrupt);
      } finally {
        store(this.#state, HEARD, ticket); // not after a stop: that passes by `finally`
      }
    });
  }

  /** Whether the cell, or a later one, has been interrupted, even if this thread was too busy to hear of it. */
  wasAsked(serial) {
    return load(this.#state, ASKED) >= serial;
  }

  /** Load something that is better not stopped half way: for so many milliseconds after an interrupt it is not. */
  loading(act, patienceMs) {
    store(this.#state, LOADING, patienceMs);
    try {
      return act();
    } finally {
      store(this.#state, LOADING, 0);
    }
  }

  /** Whether this thread was too busy to hear of the cell's interrupt, and was stopped. */
  wasStopped(serial) {
    return load(this.#state, STOPPED) === serial;
  }
}

module.exports = { Interrupts };
