// `ask_user`: a question to the person at the other end, as in Python; it gives a promise of the answer.
//
// Flows in: a question. Flows out: a request to the kernel's Python side, and its answer. Decided here: nothing.
'use strict';

const { offer } = require('./asks.cjs');

const { TypeError } = globalThis;

function installPeople(asks) {
  /** Ask the person at the other end; the cell's deadline does not run until they have answered. */
  offer('ask_user', async function ask_user(question) {
    if (typeof question !== 'string') throw new TypeError(`A question is a string, not ${typeof question}. Nobody was asked.`);
    return asks.ask('people', 'ask_user', [question]);
  });
}

module.exports = { installPeople };
