// display(x) -> one picture, or a text.
//
// Flows in: base64, a data URL, bytes, a path of a picture, a promise of any of them, or anything. Flows out: one picture in
// the encoding that it came in, or what util.inspect shows. Decided here: what counts as a picture: what begins as PNG, JPEG
// or WebP does; the kernel host decodes it.
'use strict';

const { Blob, Buffer } = require('node:buffer');
const fs = require('node:fs');
const { types } = require('node:util');
const { own } = require('./own.cjs');
const { valueText } = require('./values.cjs');

const { ArrayBuffer, Object, Promise } = globalThis;

const MAGIC = [
  ['image/png', (bytes) => bytes.subarray(0, 8).equals(Buffer.from('89504e470d0a1a0a', 'hex'))],
  ['image/jpeg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from('ffd8ff', 'hex'))],
  ['image/webp', (bytes) => bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP'],
];
const OTHERS = [
  ['GIF', /^GIF8/],
  ['BMP', /^BM/],
  ['TIFF', /^(II\*\0|MM\0\*)/],
  ['SVG', /^\s*(<\?xml[^>]*>\s*)?<svg/],
];
const DATA_URL = /^data:image\/[\w.+-]+;base64,/i;
const BASE64_PICTURE = /^(iVBORw0KGgo|\/9j\/|UklGR)[A-Za-z0-9+/=\s]*$/;
const PICTURE_FILE = /\.(png|jpe?g|webp)$/i;
const MAX_PATH_CHARS = 4_096;

function installDisplay(outputs, origins) {
  /** Show values: pictures as base64, data URL, Buffer, Uint8Array or path, or a promise of one; anything else as text. */
  function display(...values) {
    const shown = values.map((value) => {
      if (!isPromised(value)) return show(value);
      const promise = Promise.resolve(value instanceof Blob ? value.arrayBuffer() : value).then(show);
      origins.current()?.pending.push(promise);
      return promise;
    });
    if (shown.some(types.isPromise)) return Promise.all(shown).then(() => undefined);
    return undefined;
  }

  function show(value) {
    const bytes = bytesOf(value);
    const found = bytes && MAGIC.find(([, begins]) => begins(bytes));
    if (found) outputs.shown({ [found[0]]: bytes.toString('base64') });
    else if (bytes && otherKind(bytes)) outputs.notice(otherKind(bytes));
    else if (bytes && typeof value === 'string') outputs.notice('What was shown is no picture: its base64 does not decode to one.');
    else outputs.shown({ 'text/plain': own.toWellFormed(typeof value === 'string' ? value : valueText(value)) });
  }

  Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true, enumerable: true });
}

function isPromised(value) {
  return types.isPromise(value) || value instanceof Blob;
}

function bytesOf(value) {
  if (typeof value === 'string') return bytesOfText(value);
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return types.isAnyArrayBuffer(value) ? Buffer.from(value) : null;
}

function bytesOfText(text) {
  const url = DATA_URL.exec(text);
  if (url) return Buffer.from(text.slice(url[0].length), 'base64');
  if (BASE64_PICTURE.test(text)) return Buffer.from(text, 'base64');
  if (text.length < MAX_PATH_CHARS && PICTURE_FILE.test(text) && fs.existsSync(text)) return fs.readFileSync(text);
  return null;
}

function otherKind(bytes) {
  const head = bytes.toString('latin1', 0, 200);
  const found = OTHERS.find(([, begins]) => begins.test(head));
  return found && `What was shown is a ${found[0]} picture; only PNG, JPEG and WebP can be passed on. Convert it first.`;
}

module.exports = { installDisplay };
