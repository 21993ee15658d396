// `secrets`: values that the code can use and never sees, as in Python; each call gives a promise.
//
// Flows in: names. Flows out: requests to the kernel's Python side, and its answers. Decided here: that the name is there only
// where the session has secrets.
'use strict';

const { offer } = require('./asks.cjs');

const { TypeError } = globalThis;

function installSecrets(asks) {
  if (!process.env.CELLWRIGHT_SECRETS) return;
  const ask = async (use, name) => {
    if (typeof name !== 'string') throw new TypeError(`A secret is named by a string, not ${typeof name}. Nothing was typed or given.`);
    return asks.ask('secrets', use, [name]);
  };
  offer('secrets', {
    /** Type a secret's value into the field that has the keyboard; no picture shows that field from then on. */
    type: async (name) => void (await ask('type', name)),
    /** What stands for a secret's value in a header of a request to a host that it is bound to. */
    header: (name) => ask('header', name),
  });
}

module.exports = { installSecrets };
