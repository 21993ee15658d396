// What cells say -> messages, each with its cell's serial number.
//
// Flows in: texts, pictures, errors. Flows out: messages. Decided here: what a cell may send, 64 MiB; beyond that only the
// end is kept, because it is where a program says how it went, and the rest is counted; of one value that is larger, the
// beginning too.
'use strict';

const { own } = require('./own.cjs');

const { Math, Object } = globalThis;

const TAIL_CHARS = 64 * 1024;

class Outputs {
  #channel;
  #origins;
  #beyondRoom = []; // origins with a surplus

  constructor(channel, origins) {
    this.#channel = channel;
    this.#origins = origins;
  }

  stream(name, text) {
    if (text) this.#text(this.#origins.current(), { type: 'stream', name }, text);
  }

  log(text) {
    this.#text(this.#origins.current(), { type: 'log' }, text);
  }

  /** Messages that show a cell's value, to be sent with its answer. */
  result(text) {
    return this.#fitting({ type: 'result', text: own.toWellFormed(text) }, text.length);
  }

  /** `data`: MIME type -> text or base64. */
  shown(data, source = 'display') {
    const size = Object.values(data).reduce((sum, text) => sum + text.length, 0);
    this.#whole({ type: 'shown', data, source }, size);
  }

  notice(sentence) {
    this.shown({ 'text/plain': own.toWellFormed(sentence) }, 'notice');
  }

  error(content) {
    this.#whole({ type: 'error', content }, 0);
  }

  /** A child process is being started, which may write to its cell's pipes, or to this process's own output. */
  child(usesPipes) {
    this.#channel.send(usesPipes ? { type: 'child', pipes: true } : { type: 'child' });
  }

  /** At a cell's end: send the end of what was beyond its room, and what ended ones have said since beyond theirs. */
  flush() {
    for (let at = 0; at < this.#beyondRoom.length; at++) this.#sendSurplus(this.#beyondRoom[at]);
    this.#beyondRoom = [];
  }

  #sendSurplus(origin) {
    let { missing } = origin.surplus;
    for (const [message, text] of origin.surplus.pieces) {
      this.#channel.send({ ...message, cell: origin.serial, text: own.toWellFormed(text), missing });
      missing = 0;
    }
    origin.surplus = null;
  }

  #text(origin, message, text) {
    if (!origin) return;
    if (text.length > origin.room || origin.surplus) {
      text = this.#beyond(origin, message, text);
      if (!text) return;
    }
    origin.room -= text.length;
    this.#channel.send({ ...message, cell: origin.serial, text: own.toWellFormed(text) });
  }

  /** Keep the end of what is beyond the cell's room; return what still has room. */
  #beyond(origin, message, text) {
    if (!origin.surplus) this.#beyondRoom[this.#beyondRoom.length] = origin;
    const surplus = (origin.surplus ??= { pieces: [], kept: 0, missing: 0 });
    const room = surplus.pieces.length ? 0 : origin.room;
    const head = message.type === 'stream' ? text.slice(0, room) : '';
    const tail = text.slice(Math.max(head.length, text.length - TAIL_CHARS));
    surplus.missing += text.length - head.length - tail.length;
    surplus.pieces.push([message, tail]);
    surplus.kept += tail.length;
    while (surplus.kept > TAIL_CHARS) {
      const first = surplus.pieces[0];
      const excess = Math.min(first[1].length, surplus.kept - TAIL_CHARS);
      first[1] = first[1].slice(excess);
      surplus.kept -= excess;
      surplus.missing += excess;
      if (!first[1]) surplus.pieces.shift();
    }
    return head;
  }

  #whole(message, size) {
    this.#channel.send(...this.#fitting(message, size));
  }

  /** The message as its cell's; where that has no room any more, beginning and end of a text, and no picture. */
  #fitting(message, size) {
    const origin = this.#origins.current();
    if (!origin) return [];
    if (size > origin.room + origin.reserve) {
      const short = origin.extras > 0 ? shortened(message) : null;
      if (short) origin.extras--;
      return short ? [{ ...short, cell: origin.serial }] : [];
    }
    const ofReserve = Math.min(size, origin.reserve);
    origin.reserve -= ofReserve;
    origin.room -= size - ofReserve;
    return [{ ...message, cell: origin.serial }];
  }
}

/** What shows a text, with its middle left out and how much that is; null for a picture. */
function shortened(message) {
  const text = message.text ?? message.data['text/plain'];
  if (text === undefined) return null;
  const missing = text.length - TAIL_CHARS;
  if (missing <= 0) return message;
  const half = TAIL_CHARS / 2;
  const short = text.slice(0, half) + text.slice(-half);
  const cut = message.text === undefined ? { ...message, data: { 'text/plain': short } } : { ...message, text: short };
  return { ...cut, missing, missing_at: half };
}

module.exports = { Outputs };
