// What of JavaScript and Node this kernel needs after cells have run, as it was before them.
//
// Flows in: the globals, once, at the start. Flows out: functions that a cell cannot replace. Decided here: which. Code that tests
// with a clock of its own replaces `setImmediate`; a library deletes a method, or replaces one by a slower one. No cell's
// answer depends on that. It cannot be had for Node and Playwright, which use the globals too where they show a value.
'use strict';

const { apply } = Reflect;
/** A method as a function, which takes first what it is called on. */
const method = (prototype, name) => {
  const native = prototype[name];
  return (on, ...args) => apply(native, on, args);
};

const own = Object.freeze({
  __proto__: null,
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  entries: method(Map.prototype, 'entries'),
  values: method(Set.prototype, 'values'),
  then: method(Promise.prototype, 'then'),
  join: method(Array.prototype, 'join'),
  slice: method(Array.prototype, 'slice'),
  split: method(String.prototype, 'split'),
  toWellFormed: method(String.prototype, 'toWellFormed'),
});

module.exports = { own };
