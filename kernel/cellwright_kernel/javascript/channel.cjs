// The pipe on which this process speaks.
//
// Flows in: messages. Flows out: one JSON a line. Decided here: each is written whole before `send` returns, so that what
// was said before an endless loop or a crash has been said; and who writes too fast waits, since the pipe is a blocking one.
'use strict';

const fs = require('node:fs');

const WHOLE_BYTES = 4096; // PIPE_BUF: of a pipe that blocks, so much is taken at once
const BYTES_PER_CHAR = 3;

const none = []; // has what all arrays and objects have
const { isArray } = Array;
const { hasOwn, setPrototypeOf } = Object;
const { stringify } = JSON;
const { from } = Buffer;
const { writeSync } = fs;

class Channel {
  #fd;

  constructor(fd) {
    this.#fd = fd;
  }

  /** Several at once wake the reader once (0.03 ms). */
  send(...messages) {
    let lines = '';
    for (let at = 0; at < messages.length; at++) lines += stringify(plain(messages[at])) + '\n';
    if (lines.length * BYTES_PER_CHAR <= WHOLE_BYTES) return void writeSync(this.#fd, lines);
    const data = from(lines);
    let written = 0;
    while (written < data.length) written += writeSync(this.#fd, data, written);
  }
}

/** The same, where a library has given all objects a form of their own in JSON. */
function plain(message) {
  if (!('toJSON' in none)) return message;
  const copy = isArray(message) ? [] : {};
  setPrototypeOf(copy, null);
  for (const key in message) {
    if (hasOwn(message, key)) copy[key] = typeof message[key] === 'object' && message[key] ? plain(message[key]) : message[key];
  }
  return copy;
}

module.exports = { Channel };
