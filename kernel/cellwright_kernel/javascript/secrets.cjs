// `secrets`: values that the code can use and never sees, as in Python; each call gives a promise.
//
// Flows in: names, and how a placeholder begins. Flows out: requests to the kernel's Python side, and its answers. Decided here: that the name is there only
// where the session has secrets; and that `fetch` refuses to encrypt a placeholder, which nobody could replace then.
'use strict';

const { offer } = require('./asks.cjs');

const { Error, Headers, Object, Promise, String, TypeError } = globalThis;

const ENCRYPTED = 'What stands for a secret was to go into an https:// request, which is encrypted in here, so that nothing outside '
  + 'can put the value in its place. Nothing was sent. Write http://HOST:443/ instead: that leaves encrypted.';

function installSecrets(asks, beginning) {
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
  const send = globalThis.fetch;
  const sendIfNone = (resource, options) => {
    const refused = isEncrypted(resource) && hasText(options?.headers ?? resource?.headers, beginning);
    return refused ? Promise.reject(new Error(ENCRYPTED)) : send(resource, options);
  };
  globalThis.fetch = Object.defineProperty(sendIfNone, 'name', { value: 'fetch' });
}

function isEncrypted(resource) {
  return /^\s*https:/i.test(String(resource?.url ?? resource));
}

function hasText(headers, text) {
  if (!headers) return false;
  return [...new Headers(headers).values()].some((value) => value.includes(text));
}

module.exports = { installSecrets };
