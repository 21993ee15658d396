// `screen`: what a cell sees of the desktop, as in Python; each call gives a promise.
//
// Flows in: calls. Flows out: requests to the kernel's Python side, which has the display, and its answers. Decided here:
// the forms of JavaScript: milliseconds, `{ x, y, width, height }`, a PNG as a Buffer, names in camel case beside Python's.
'use strict';

const { Buffer } = require('node:buffer');
const { inspect } = require('node:util');
const { offer } = require('./asks.cjs');

const { Array, Number, Object, RangeError, TypeError } = globalThis;

const LONGEST_MS = 600_000;

function installScreen(asks) {
  const ask = (name, args) => asks.ask('screen', name, args);
  const screen = {
    /** A picture of the screen or a region, as a PNG: display(await screen.shot()). */
    shot: async (region) => Buffer.from(await ask('shot', [sides(region)]), 'base64'),
    /** The same of a region, `factor` times as large. */
    zoom: async (region, factor = 2) => Buffer.from(await ask('zoom', [sides(region), number(factor)]), 'base64'),
    /** Wait until nothing is drawn and no page loads, fetches or animates; says why it returned. */
    settle: async (timeout) => ask('settle', [seconds(timeout, 5_000)]),
    /** Where the screen differs from the last look; null when nowhere. */
    changed: () => ask('changed', []),
    /** Where a text stands: a list of { text, box, center, confidence }. */
    findText: async (text, region) => ask('find_text', [string(text), sides(region)]),
    /** The first of them, once it is there. */
    waitText: async (text, timeout, region) => ask('wait_text', [string(text), seconds(timeout, 10_000), sides(region)]),
  };
  offer('screen', Object.assign(screen, { find_text: screen.findText, wait_text: screen.waitText }));
}

/** `{ x, y, width, height }` or `[left, top, width, height]` -> the latter. */
function sides(region) {
  if (region === undefined || region === null || Array.isArray(region)) return region ?? null;
  const { x, y, width, height } = region;
  return [x, y, width, height];
}

/** Milliseconds, or Playwright's `{ timeout }`. */
function seconds(timeout, usual) {
  const limit = (typeof timeout === 'object' && timeout ? timeout.timeout : timeout) ?? usual;
  if (Number.isFinite(limit) && limit >= 0 && limit <= LONGEST_MS) return limit / 1_000;
  throw new RangeError(`timeout is in milliseconds, from 0 to ${LONGEST_MS}; it was ${inspect(limit)}.`);
}

/** JSON would make null of the numbers that are none. */
function number(factor) {
  if (Number.isFinite(factor) && factor > 0) return factor;
  throw new RangeError(`factor is a number above 0, such as 2; it was ${inspect(factor)}.`);
}

function string(text) {
  if (typeof text === 'string') return text;
  throw new TypeError(`The text to look for is a string; it was ${inspect(text)}.`);
}

module.exports = { installScreen };
