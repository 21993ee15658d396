// `secrets`: values that the code can use and never sees, as in Python; each call gives a promise.
//
// Flows in: names; how a placeholder begins, and the sentences that refuse one; Playwright, once it is loaded. Flows out: requests to
// the kernel's Python side, and its answers. Decided here: that the name is there only where the session has secrets; that `fetch`
// refuses to encrypt a placeholder, which nobody could replace then; and that Playwright refuses to type one, as Python's does.
'use strict';

const { offer } = require('./asks.cjs');

const { Error, Headers, Object, Promise, Reflect, String, TypeError } = globalThis;

let words = null; // { beginning, typing, typed, encrypted }, where the session has secrets

function installSecrets(asks, placeholderWords) {
  if (!process.env.CELLWRIGHT_SECRETS) return;
  words = placeholderWords;
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
    const refused = isEncrypted(resource) && hasText(options?.headers ?? resource?.headers, words.beginning);
    return refused ? Promise.reject(new Error(words.encrypted)) : send(resource, options);
  };
  globalThis.fetch = Object.defineProperty(sendIfNone, 'name', { value: 'fetch' });
}

/** Have Playwright refuse to type what stands for a secret; what it tells its own server goes through one call. */
function typeNoPlaceholder(playwright) {
  const owner = Object.getPrototypeOf(playwright?.chromium?._connection ?? {});
  const send = owner.sendMessageToServer;
  if (!words || typeof send !== 'function' || send.typesNoPlaceholder) return;
  const sendIfNone = function (object, method, params, ...more) {
    if (words.typing.includes(method) && Object.values(params ?? {}).some(isPlaceholder)) return Promise.reject(new Error(words.typed));
    return Reflect.apply(send, this, [object, method, params, ...more]);
  };
  sendIfNone.typesNoPlaceholder = true;
  owner.sendMessageToServer = sendIfNone; // last, and at once: a stop may come between
}

function isPlaceholder(value) {
  return typeof value === 'string' && value.includes(words.beginning);
}

function isEncrypted(resource) {
  return /^\s*https:/i.test(String(resource?.url ?? resource));
}

function hasText(headers, text) {
  if (!headers) return false;
  return [...new Headers(headers).values()].some((value) => value.includes(text));
}

module.exports = { installSecrets, typeNoPlaceholder };
