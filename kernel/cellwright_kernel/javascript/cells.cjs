// A cell: prepared, evaluated, and answered once.
//
// Flows in: requests to run code, one at a time, and interrupts. Flows out: outputs, and one answer each. Decided here: what
// a cell waits for before it has ended: its code, the promise that is its value, the pictures it was promised, and one round
// of the event loop, so that what went wrong unheeded is told before the answer; and if it failed, the word that it was
// not interrupted before. An interrupt answers for a cell whose evaluation will never answer.
'use strict';

const { types } = require('node:util');
const { describe, describeSyntax, interrupted, interruptedAfter } = require('./errors.cjs');
const { Boxed, Source } = require('./source.cjs');
const { own } = require('./own.cjs');
const { valueText } = require('./values.cjs');

const { Promise, setImmediate } = globalThis;
const { unpacked } = Boxed;
const allSettled = Promise.allSettled.bind(Promise);

class Cells {
  #parts;
  #running = null;
  #begun = 0; // serial of the latest cell
  wasInterrupted = () => false;
  wasStopped = () => false;

  constructor(parts) {
    this.#parts = parts;
  }

  /** A request that a stop has interrupted comes again. */
  run({ id, cell, number, code, pipes }) {
    if (cell <= this.#begun) return;
    const { origins, browser, children } = this.#parts;
    const origin = origins.begin(cell, number);
    children.begin(origin, pipes);
    const running = { __proto__: null, id, origin, source: new Source(code, number), outcome: null };
    // never from within the inspector's own dispatch, nor from a stream's callback: both must survive a stop
    this.#soon(running, () => {
      if (this.#running !== running) return;
      if (this.wasInterrupted(cell)) return this.interrupt(cell);
      let isNow = true;
      browser.bind(code, this.#parts.evaluator, () => {
        if (isNow) this.#begin(running);
        else this.#soon(running, () => this.#begin(running));
      });
      isNow = false;
    });
    this.#running = running;
    this.#begun = cell;
  }

  /** A cell is answered too where what it has changed makes this code fail. */
  #soon(running, act) {
    setImmediate(() => {
      try {
        act();
      } catch (error) {
        if (this.#running !== running) return;
        const { id, origin } = running;
        const content = describe(error);
        this.#parts.channel.send({ type: 'error', cell: origin.serial, content }, { type: 'answer', id, content: { status: 'error', ...content } });
        this.#running = null;
        origin.end();
      }
    });
  }

  /** End a cell and what it has planned. May be called more than once. */
  interrupt(serial) {
    const running = this.#running;
    if (!running || running.origin.serial !== serial) return;
    running.origin.interrupted = true;
    // an error in the moment of an interrupt is of it: a child process, say, was interrupted too
    if (!running.outcome || !('value' in running.outcome)) running.outcome = { __proto__: null, failure: interrupted() };
    else if (this.wasStopped(serial)) running.outcome.failure = interruptedAfter();
    const { origins, browser, outputs } = this.#parts;
    const say = (sentence) => origins.run(running.origin, () => outputs.notice(sentence));
    origins.apart(() => browser.dialogs.dismiss(say, () => this.#soon(running, () => this.#answer(running))));
  }

  /** Whether a cell that failed was interrupted before. */
  fail({ cell, interrupted }) {
    const running = this.#running;
    if (interrupted) this.interrupt(cell);
    else if (running?.origin.serial === cell && !running.origin.interrupted) this.#answer(running);
  }

  #begin(running) {
    if (this.#running === running) this.#evaluate(running, running.source.first());
  }

  #evaluate(running, text) {
    const { origins, evaluator } = this.#parts;
    origins.run(running.origin, () => evaluator.evaluate(text, (outcome) => this.#settle(running, outcome)));
  }

  #settle(running, outcome) {
    if (outcome.stopped) return this.#soon(running, () => this.interrupt(running.origin.serial));
    if (outcome.syntaxError) {
      const next = running.source.next(outcome);
      if (next !== null) return this.#soon(running, () => this.#evaluate(running, next));
      return this.#end(running, { __proto__: null, failure: describeSyntax(running.source.failure(outcome), running.source.code) });
    }
    if ('thrown' in outcome) return this.#end(running, { __proto__: null, failure: describe(outcome.thrown) });
    const value = unpacked(outcome.value);
    if (!types.isPromise(value)) return this.#afterPictures(running, value);
    own.then(
      value,
      (value) => this.#afterPictures(running, value),
      (reason) => this.#end(running, { __proto__: null, failure: describe(reason) }),
    );
  }

  #afterPictures(running, value) {
    const { pending } = running.origin;
    if (!pending.length) return this.#end(running, { __proto__: null, value });
    own.then(allSettled(pending.splice(0)), () => this.#afterPictures(running, value));
  }

  /** Answer after one round of the event loop; the first outcome counts, and what is interrupted in that round has ended. */
  #end(running, outcome) {
    if (running.outcome) return;
    running.outcome = outcome;
    this.#soon(running, () => (outcome.failure ? this.#askOfFailure(running) : this.#answer(running)));
  }

  /** A child that died of an interrupt makes the cell fail before that has come here by two processes and a thread. */
  #askOfFailure(running) {
    if (this.#running === running && !running.origin.interrupted) {
      this.#parts.channel.send({ type: 'failed', cell: running.origin.serial });
    }
  }

  #answer(running) {
    if (this.#running !== running) return;
    if (this.wasInterrupted(running.origin.serial) && !running.origin.interrupted) return; // it will be heard, and answers
    const { channel, modules, origins, outputs } = this.#parts;
    const { origin } = running;
    if (origin.interrupted) forgetUnfinished(modules);
    outputs.flush();
    const { outcome } = running;
    running.outcome = { __proto__: null, failure: outcome.failure ?? interrupted() }; // if showing the value is stopped, it is not tried again
    const { failure, shown } = origins.run(origin, () => this.#say(outcome));
    const content = failure ? { status: 'error', ...failure } : { status: 'ok' };
    channel.send(...shown, { type: 'answer', id: running.id, content });
    this.#running = null; // last: who is stopped before it answers again
    origin.end();
  }

  /** Say the failure; return it, and what shows the value, which leaves with the answer where nothing is said after it. */
  #say({ value, failure }) {
    const { channel, outputs } = this.#parts;
    let shown = [];
    if (value !== undefined) {
      try {
        shown = outputs.result(valueText(value));
      } catch (error) {
        failure ??= describe(error, ['The value of the last expression could not be shown; what the cell did is kept.']);
      }
    }
    if (!failure) return { __proto__: null, shown };
    channel.send(...shown);
    this.#parts.browser.dialogs.name((sentence) => outputs.notice(sentence));
    outputs.error(failure);
    return { __proto__: null, failure, shown: [] };
  }
}

function forgetUnfinished(modules) {
  try {
    modules.forgetUnfinished();
  } catch {
    return; // the answer counts more
  }
}

module.exports = { Cells };
