// The value of the last expression -> text.
//
// Flows in: any value. Flows out: what util.inspect shows of it. Decided here: how deep. Four levels where that is little,
// down to one where it would be much, since inspect bounds the length of arrays and not of what they hold. Getters do not run,
// and a Proxy's traps do not either.
'use strict';

const { inspect, types } = require('node:util');
const { own } = require('./own.cjs');

const { Array, Math, Object, Set } = globalThis;

const DEPTH = 4;
const NODES = 2_000;
const OPTIONS = { maxArrayLength: 100, maxStringLength: 10_000 };

function valueText(value) {
  if (typeof value !== 'object' && typeof value !== 'function') return inspect(value, OPTIONS);
  return inspect(value, { ...OPTIONS, depth: depthFor(value) });
}

/** The greatest depth at which at most `NODES` values are shown. */
function depthFor(value) {
  const seen = new Set();
  let level = [value];
  let count = 0;
  for (let depth = 0; depth <= DEPTH; depth++) {
    const next = [];
    for (const holder of level) {
      for (const held of heldBy(holder)) {
        if (++count > NODES) return Math.max(1, depth - 1);
        if (typeof held === 'object' && held !== null && !seen.has(held)) next.push(held);
        seen.add(held);
      }
    }
    level = next;
  }
  return DEPTH;
}

/** Values directly in one, as far as they are shown, without running code. */
function* heldBy(holder) {
  if (typeof holder !== 'object' || holder === null || types.isProxy(holder) || types.isTypedArray(holder)) return;
  if (types.isMap(holder)) {
    for (const [key, value] of [...own.entries(holder)].slice(0, OPTIONS.maxArrayLength)) yield* [key, value];
  } else if (types.isSet(holder)) {
    yield* [...own.values(holder)].slice(0, OPTIONS.maxArrayLength);
  }
  const keys = Array.isArray(holder) ? arrayKeys(holder) : Object.keys(holder);
  for (const key of keys) {
    const found = Object.getOwnPropertyDescriptor(holder, key);
    if (found && 'value' in found) yield found.value;
  }
}

function* arrayKeys(array) {
  for (let at = 0; at < Math.min(array.length, OPTIONS.maxArrayLength); at++) yield at;
}

module.exports = { valueText };
