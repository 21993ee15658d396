// `clipboard`: what Ctrl+C copies and Ctrl+V pastes in every program of the desktop, as in Python; each call gives a promise.
//
// Flows in: calls. Flows out: requests to the kernel's Python side, and its answers. Decided here: the forms of JavaScript:
// `{ primary: true }` for the selection that the middle button pastes; `readText` and `writeText` as in a page.
'use strict';

const { offer } = require('./asks.cjs');

const { Object, TypeError } = globalThis;

function installClipboard(asks) {
  const clipboard = {
    /** The text that was copied last; '' when there is none. */
    read: ({ primary = false } = {}) => asks.ask('clipboard', 'read', [primary]),
    /** Copy a text; it stays there until something else is copied. */
    write: async (text, { primary = false } = {}) => {
      if (typeof text !== 'string') throw new TypeError(`A string can be copied, not ${typeof text}. The clipboard is as it was.`);
      await asks.ask('clipboard', 'write', [primary, text]);
    },
  };
  offer('clipboard', Object.assign(clipboard, { readText: clipboard.read, writeText: clipboard.write }));
}

module.exports = { installClipboard };
