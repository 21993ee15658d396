// What may stand at the cursor, and whether code is whole.
//
// Flows in: code and a position. Flows out: the content of Jupyter's replies. Decided here: names and paths of properties
// are completed, and no getter runs for it.
'use strict';

const acorn = require('internal/deps/acorn/acorn/dist/acorn');

const { Object, Set } = globalThis;

const PATH = /(?:([\w$]+(?:\.[\w$]+)*)\.)?([\w$]*)$/u;
const MAX_MATCHES = 200;
const PARSE = { ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true };

class Completion {
  #evaluator;

  constructor(evaluator) {
    this.#evaluator = evaluator;
  }

  complete({ code, at }) {
    const before = [...code].slice(0, at).join('');
    const [, holder, begun] = PATH.exec(before);
    const names = holder ? propertyNames(this.#evaluator.peek(holder)) : [...this.#evaluator.lexicalNames(), ...propertyNames(globalThis)];
    const fitting = [...new Set(names)].filter((name) => name.startsWith(begun) && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name));
    const matches = fitting.sort().slice(0, MAX_MATCHES).map((name) => (holder ? `${holder}.${name}` : name));
    return { matches, cursor_start: at - (holder ? holder.length + 1 : 0) - begun.length, cursor_end: at };
  }

  is_complete({ code }) {
    try {
      acorn.parse(code, PARSE);
      return { status: 'complete' };
    } catch (error) {
      const isAtEnd = error.pos >= code.trimEnd().length || /^Unterminated (template|comment)/.test(error.message);
      return isAtEnd ? { status: 'incomplete', indent: '' } : { status: 'invalid' };
    }
  }
}

function propertyNames(value) {
  const names = [];
  for (let holder = value ?? null; holder !== null; holder = Object.getPrototypeOf(Object(holder))) {
    names.push(...Object.getOwnPropertyNames(Object(holder)));
  }
  return names;
}

module.exports = { Completion };
