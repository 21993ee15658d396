// Code -> its value, as Node's inspector evaluates it: top-level `await`, and the same `const` may be declared again.
//
// Flows in: JavaScript. Flows out: the value itself, what was thrown, or that it does not compile. Decided here: the
// inspector answers with descriptions of values; the values themselves are fetched with one more call.
'use strict';

const { Session } = require('node:inspector');

const { BigInt, JSON, Math, Number, SyntaxError } = globalThis;
const { hasOwn } = Object;
const { apply } = Reflect;
const { post } = Session.prototype;

class Evaluator {
  #session = new Session();
  #take; // the inspector's id of a function that keeps what it is given
  #taken;

  constructor() {
    this.#session.connect();
    const name = `take${Math.random()}`;
    globalThis[name] = (value) => void (this.#taken = value);
    this.#post('Runtime.evaluate', { expression: `globalThis[${JSON.stringify(name)}]` }, (_, { result }) => {
      this.#take = result.objectId;
    });
    delete globalThis[name];
  }

  /**
   * Evaluate. `done` gets one of `{ value }`, `{ thrown }`, `{ syntaxError, line, column }` (from 1), `{ stopped: true }`;
   * it is never called for code that is stopped behind an `await`.
   */
  evaluate(expression, done) {
    const options = { expression, replMode: true, awaitPromise: true, disableBreaks: true };
    this.#post('Runtime.evaluate', options, (error, answer) => {
      if (error) return done({ __proto__: null, stopped: true });
      const { result, exceptionDetails } = answer;
      if (!exceptionDetails) return done({ __proto__: null, value: this.#actual(result) });
      const thrown = this.#actual(exceptionDetails.exception ?? result);
      // only what does not compile is reported with a script; what is thrown comes as a rejected promise
      if (exceptionDetails.scriptId === undefined || !(thrown instanceof SyntaxError)) return done({ __proto__: null, thrown });
      const { lineNumber, columnNumber } = exceptionDetails;
      done({ __proto__: null, syntaxError: thrown, line: lineNumber + 1, column: columnNumber + 1 });
    });
  }

  /** Names that cells declared with let, const or class. */
  lexicalNames() {
    let names = [];
    this.#post('Runtime.globalLexicalScopeNames', {}, (_, answer) => (names = answer?.names ?? []));
    return names;
  }

  /** The value of a name or a path of properties, evaluated only if that has no side effect. */
  peek(expression) {
    let value;
    const options = { expression, throwOnSideEffect: true, silent: true };
    this.#post('Runtime.evaluate', options, (_, answer) => {
      if (answer && !answer.exceptionDetails) value = this.#actual(answer.result);
    });
    return value;
  }

  #post(method, options, done) {
    apply(post, this.#session, [method, options, done]);
  }

  #actual(remote) {
    if (remote.objectId) {
      const given = [{ objectId: remote.objectId }];
      given.toJSON = undefined; // the inspector is spoken to in JSON, of which a library may have given arrays its own
      const options = { objectId: this.#take, functionDeclaration: 'function (value) { this(value) }', arguments: given };
      this.#taken = undefined;
      this.#post('Runtime.callFunctionOn', options);
      const value = this.#taken;
      this.#taken = undefined;
      this.#post('Runtime.releaseObject', { objectId: remote.objectId });
      return value;
    }
    if ('unserializableValue' in remote) {
      const text = remote.unserializableValue;
      return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
    }
    return remote.subtype === 'null' ? null : hasOwn(remote, 'value') ? remote.value : undefined;
  }
}

module.exports = { Evaluator };
