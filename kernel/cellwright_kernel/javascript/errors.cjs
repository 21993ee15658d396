// What was thrown, as the model is to read it.
//
// Flows in: errors. Flows out: name, message and plain lines, in the form of Jupyter's `error` content. Decided here: which
// frames an error's stack has at all, for the cells too that print it: those in the model's own cells and in files below
// its home; not Node's, not a library's, not ours. A cell is `<cell N>`.
'use strict';

const os = require('node:os');
const path = require('node:path');
const { fileURLToPath } = require('node:url');
const { inspect } = require('node:util');
const { own } = require('./own.cjs');

const { Array, Error, Map, Math, Number, Object, String, process } = globalThis;

const MAX_LINES = 80;
const MAX_CHARS = 10_000; // of what an error's first line says
const MAX_LINE_CHARS = 2 * MAX_CHARS; // what is cut already has a sentence about it
const MAX_MESSAGE_CHARS = 1024 * 1024;
const UNTOLD =
  'Something was thrown that cannot be told. Usually a cell has changed what JavaScript itself needs, such as a method of Array. ' +
  'Put it back, or restart the kernel.';
const PLAYWRIGHT = path.join(path.dirname(process.execPath), 'package') + path.sep;
const CELL = /<cell-((?:attached-)?\d+)>:(\d+):(\d+)/g;

/** Thrown by process.exit(). */
class Exit extends Error {
  constructor(code) {
    super(`process.exit(${code ?? ''}) ends the cell only. The kernel goes on: variables are kept.`);
    this.name = 'Exit';
  }
}

const shifts = new Map(); // cell's number, as text -> [line, from column, columns by which our preparing moved it to the right]

function setShift(number, shift) {
  if (shift) shifts.set(number, shift);
  else shifts.delete(number);
}

function installErrors() {
  Error.prepareStackTrace = (error, sites) => {
    // Playwright reads the name of its own function out of such a stack, for its messages
    const isForPlaywright = !error.message && sites.length > 0 && isOfPlaywright(sites[0]);
    let stack = heading(error);
    shortenMessage(error);
    for (let at = 0; at < sites.length; at++) {
      const site = sites[at];
      if (isOwn(site) || (isForPlaywright && isOfPlaywright(site))) stack += `\n    at ${place(String(site))}`;
    }
    return stack;
  };
}

/**
 * The inspector copies an error's message some ten times before it hands the error out: one of 100 MB was the kernel's end.
 * It asks for the stack first.
 */
function shortenMessage(error) {
  try {
    const found = Object.getOwnPropertyDescriptor(error, 'message');
    if (typeof found?.value !== 'string' || found.value.length <= MAX_MESSAGE_CHARS) return;
    Object.defineProperty(error, 'message', { ...found, value: shortened(found.value, MAX_MESSAGE_CHARS) });
  } catch {} // it is frozen, or a proxy
}

function shortened(text, chars) {
  const missing = text.length - chars;
  return missing > 0 ? `${text.slice(0, chars)}... ${missing} more characters` : text;
}

function isOfPlaywright(site) {
  return site.getScriptNameOrSourceURL()?.startsWith(PLAYWRIGHT) ?? false;
}

function heading(error) {
  try {
    return shortened(own.errorText(error), MAX_CHARS);
  } catch {
    return 'Error';
  }
}

function isOwn(site) {
  let file = site.getScriptNameOrSourceURL() ?? site.getEvalOrigin() ?? '';
  if (file.includes('<cell-')) return true;
  if (file.startsWith('file:')) file = fileURLToPath(file);
  const home = os.homedir() + path.sep;
  return file.startsWith(home) && !file.includes(`${path.sep}node_modules${path.sep}`) && !file.startsWith(__dirname);
}

function place(frame) {
  return frame.replace(CELL, (_, number, line, column) => {
    const [ofLine, from, by] = shifts.get(number) ?? [0, 0, 0];
    const moved = Number(line) === ofLine && Number(column) > from + by ? Number(column) - by : column;
    return `<cell ${number}>:${line}:${moved}`;
  });
}

/** Jupyter's `error` content for anything that was thrown. */
function describe(thrown, before) {
  try {
    return described(thrown, before);
  } catch {
    return content('Error', UNTOLD, [`Error: ${UNTOLD}`]);
  }
}

function described(thrown, before = []) {
  if (thrown instanceof Exit) return content(thrown.name, thrown.message, [`${thrown.name}: ${thrown.message}`]);
  const isError = Error.isError(thrown) || thrown instanceof Error;
  let text;
  try {
    text = isOfPlaywrights(thrown) ? stackOf(thrown) : inspect(thrown, { maxStringLength: 10_000 });
    if (isError) text = text.replace(/^\[([^]*?)\](?= \{\n|$)/, '$1'); // how inspect shows an error without frames
  } catch (error) {
    text = `${isError ? heading(thrown) : typeof thrown} (it could not be shown: ${heading(error)})`;
  }
  if (!isError) return content('Uncaught', text, [...before, ...`Uncaught ${text}`.split('\n')]);
  return content(nameOf(thrown), messageOf(thrown), [...before, ...text.split('\n')]);
}

/** Playwright's errors carry their log twice. */
function isOfPlaywrights(error) {
  return Object.hasOwn(Object(error), 'log') && Array.isArray(error.log) && typeof error.stack === 'string';
}

function stackOf({ name, stack }) {
  return stack.startsWith(name) ? stack : `${name}: ${stack}`;
}

/** The same for code that does not compile, with the line and a caret. */
function describeSyntax({ syntaxError, line, column, number, hint }, code) {
  const all = code.trimEnd().split(/\r\n|[\n\r\u2028\u2029]/);
  if (line > all.length) { // what is missing at the end is missed on the line that gives the cell its name, after the code
    line = all.length;
    column = all[line - 1].length + 1;
  }
  const lines = [`<cell ${number}>:${line}`];
  const source = all[line - 1];
  if (source !== undefined) {
    const from = Math.max(0, column - 100);
    const gap = source.slice(from, column - 1).replace(/[^\t]/g, ' ');
    lines.push(source.slice(from, column + 60), `${gap}^`);
  }
  const { message } = syntaxError;
  lines.push(`SyntaxError: ${message}`);
  if (hint) lines.push(hint);
  return content('SyntaxError', message, lines);
}

/** The same for a cell that was interrupted. */
function interrupted() {
  return content('Interrupted', 'the cell was stopped', ['Interrupted: the cell was stopped']);
}

/** The same for a cell whose code had ended, and which waited for something else. */
function interruptedAfter() {
  const what = 'the code had run to its end; what ran after it was stopped';
  return content('Interrupted', what, [`Interrupted: ${what}`]);
}

function content(ename, evalue, lines) {
  const missing = lines.length - MAX_LINES;
  if (missing > 0) {
    const half = MAX_LINES / 2;
    lines = [...lines.slice(0, half), `    [${missing} ${missing > 1 ? 'lines' : 'line'} left out]`, ...lines.slice(-half)];
  }
  const traceback = [];
  for (let at = 0; at < lines.length; at++) traceback[at] = wellFormed(lines[at]);
  return { ename: wellFormed(ename), evalue: wellFormed(evalue), traceback };
}

function wellFormed(text) {
  return own.toWellFormed(shortened(String(text), MAX_LINE_CHARS));
}

function nameOf(error) {
  try {
    return String(error.name || error.constructor?.name || 'Error');
  } catch {
    return 'Error';
  }
}

function messageOf(error) {
  try {
    return String(error.message);
  } catch {
    return '';
  }
}

module.exports = { Exit, describe, describeSyntax, installErrors, interrupted, interruptedAfter, setShift };
