// Timers and fetch, as Node has them, for cells that were not interrupted.
//
// Flows in: calls. Flows out: Node's own timers. Decided here: what a cell has planned ends with its interrupt. A loop that
// awaits a timer between its rounds would otherwise go on behind the next cells, since nothing in JavaScript can stop it.
'use strict';

const timers = require('node:timers');
const { syncBuiltinESMExports } = require('node:module');
const { inspect, promisify } = require('node:util');
const { own } = require('./own.cjs');

const { Object, Promise, clearTimeout, clearInterval, clearImmediate, fetch } = globalThis;
const { apply } = Reflect;

function installTimers(origins) {
  for (const name of ['setTimeout', 'setInterval', 'setImmediate']) {
    const guarded = guard(timers[name], origins);
    globalThis[name] = timers[name] = guarded;
  }
  guardPromised(require('node:timers/promises'), ['setTimeout', 'setImmediate'], origins);
  syncBuiltinESMExports();
  showBriefly();
  const guardedFetch = (...args) => afterwards(origins, fetch(...args));
  globalThis.fetch = Object.defineProperty(guardedFetch, 'name', { value: 'fetch' });
}

/** `Timeout {}` in place of a timer's innards, where a cell ends in setting one. */
function showBriefly() {
  for (const timer of [clearedTimeout(), clearedImmediate()]) {
    Object.getPrototypeOf(timer)[inspect.custom] = function brief() {
      return `${this.constructor.name} {}`;
    };
  }
}

function clearedTimeout() {
  const timer = timers.setTimeout(() => {});
  clearTimeout(timer);
  return timer;
}

function clearedImmediate() {
  const timer = timers.setImmediate(() => {});
  clearImmediate(timer);
  return timer;
}

function guard(native, origins) {
  function guarded(callback, ...rest) {
    const origin = origins.known();
    if (typeof callback !== 'function' || !origin) return native(callback, ...rest);
    return native(function (...args) {
      if (origin.interrupted) clearInterval(this);
      else apply(callback, this, args);
    }, ...rest);
  }
  const promised = native[promisify.custom];
  if (promised) guarded[promisify.custom] = (...args) => afterwards(origins, promised(...args));
  return Object.defineProperty(guarded, 'name', { value: native.name });
}

function guardPromised(module, names, origins) {
  for (const name of names) {
    const native = module[name];
    module[name] = Object.defineProperty((...args) => afterwards(origins, native(...args)), 'name', { value: name });
  }
}

/** The same promise, which never settles once its cell was interrupted. */
function afterwards(origins, promise) {
  const origin = origins.known();
  if (!origin) return promise;
  const never = () => new Promise(() => {});
  return own.then(
    promise,
    (value) => (origin.interrupted ? never() : value),
    (reason) => {
      if (origin.interrupted) return never();
      throw reason;
    },
  );
}

module.exports = { installTimers, afterwards };
