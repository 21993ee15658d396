// Which cell an output belongs to.
//
// Flows in: each cell that begins. Flows out: for any callback, however late, the cell that started it. Decided here: the
// origin travels in an AsyncLocalStorage, as promises, timers and events do; what has none belongs to the latest cell.
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');

const { Math } = globalThis;

const ROOM_BYTES = 64 * 1024 * 1024;
const LATE_BYTES = 4 * 1024 * 1024; // as in python/origin.py

/** One cell, as the sender of outputs. Lives as long as anything that it started. */
class Origin {
  serial;
  number;
  room = ROOM_BYTES; // bytes that it may still send; what comes after is cut at the source
  reserve = 0; // once it has ended: bytes that what it shows may take besides; a picture now and then is no flood
  extras = 64; // values and shown texts that it may still send after that, each of at most 64 KiB
  surplus = null; // what came after
  interrupted = false;
  open = true;
  pending = []; // promises of pictures that were given to display()

  constructor(serial, number) {
    this.serial = serial;
    this.number = number;
  }

  /** What it left running may still say something. */
  end() {
    this.open = false;
    this.reserve = Math.max(0, this.room - LATE_BYTES);
    this.room -= this.reserve;
  }
}

class Origins {
  #storage = new AsyncLocalStorage();
  #latest = null;

  begin(serial, number) {
    this.#latest = new Origin(serial, number);
    return this.#latest;
  }

  current() {
    return this.#storage.getStore() ?? this.#latest;
  }

  /** The cell that the caller was started by, without a guess. */
  known() {
    return this.#storage.getStore();
  }

  run(origin, act) {
    return this.#storage.run(origin, act);
  }

  /** Do something that outlives the cell and belongs to none. */
  apart(act) {
    return this.#storage.run(undefined, act);
  }
}

module.exports = { Origins };
