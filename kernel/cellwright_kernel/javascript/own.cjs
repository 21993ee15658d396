// What of JavaScript this kernel needs after cells have run, as it was before them.
//
// Flows in: the globals, once, at the start. Flows out: methods as functions, which a cell cannot replace. Decided here: which:
// those that a cell's answer depends on. Code that tests with a clock of its own replaces `setImmediate`, a library a method, a
// cell declares a `class Map`: so every file takes the globals that it uses when it is loaded (`const { Map } = globalThis`).
// What Node and Playwright themselves need cannot be held for them.
'use strict';

const { apply } = Reflect;

const own = Object.freeze({
  __proto__: null,
  entries: method(Map.prototype, 'entries'),
  errorText: method(Error.prototype, 'toString'),
  join: method(Array.prototype, 'join'),
  split: method(String.prototype, 'split'),
  then: method(Promise.prototype, 'then'),
  toWellFormed: method(String.prototype, 'toWellFormed'),
  values: method(Set.prototype, 'values'),
});

/** A method as a function, which takes first what it is called on. */
function method(prototype, name) {
  const native = prototype[name];
  return (on, ...args) => apply(native, on, args);
}

module.exports = { own };
