// The process, as cells see it: it is not theirs to end.
//
// Flows in: writes to its output, process.exit(), errors that nobody caught, starts of children. Flows out: texts under the
// cell that caused them. Decided here: process.exit() ends the cell; an unhandled rejection or an exception in a callback is
// told, and the kernel goes on; each start of a child is told, so that what was said before it stands before what it writes.
'use strict';

const { Buffer } = require('node:buffer');
const childProcess = require('node:child_process');
const fs = require('node:fs');
const { syncBuiltinESMExports } = require('node:module');
const { Exit, describe } = require('./errors.cjs');
const { own } = require('./own.cjs');

const { Object, process } = globalThis;
const { apply } = Reflect;

const CELLS_SCORE = '1000'; // as in processes.py

function installProcess(outputs, origins, children) {
  for (const name of ['stdout', 'stderr']) {
    process[name].write = (chunk, encoding, done) => {
      const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString();
      outputs.stream(name, text);
      const after = typeof encoding === 'function' ? encoding : done;
      if (typeof after === 'function') process.nextTick(after);
      return true;
    };
  }
  process.exit = (code) => {
    throw new Exit(code);
  };
  keepListening({
    uncaughtException: (error) => tell(outputs, origins, 'Uncaught exception', error),
    unhandledRejection: (reason) => tell(outputs, origins, 'Unhandled promise rejection', reason),
  });
  announceChildren(outputs, origins, children);
}

/** Also where cells remove all listeners, as code does that tests itself: without one, Node ends. */
function keepListening(listeners) {
  const { listenerCount, on } = process;
  const listen = () => {
    for (const name in listeners) {
      if (apply(listenerCount, process, [name, listeners[name]]) === 0) apply(on, process, [name, listeners[name]]);
    }
  };
  for (const name of ['off', 'removeListener', 'removeAllListeners']) {
    const native = process[name];
    const value = Object.defineProperty((...args) => (apply(native, process, args), listen(), process), 'name', { value: name });
    Object.defineProperty(process, name, { value, writable: true, configurable: true });
  }
  listen();
}

function announceChildren(outputs, origins, children) {
  for (const name of ['exec', 'execFile', 'execFileSync', 'execSync', 'fork', 'spawn', 'spawnSync']) {
    const native = childProcess[name];
    const announced = (...args) => {
      const redirected = children.redirected(origins.current(), name, args);
      outputs.child(redirected !== null);
      const child = native(...(redirected ?? args));
      if (child?.pid) goesFirst(child.pid);
      return child;
    };
    childProcess[name] = Object.defineProperties(announced, Object.getOwnPropertyDescriptors(native));
  }
  syncBuiltinESMExports();
}

/** Where memory runs out, it is ended before this process, which keeps variables. */
function goesFirst(pid) {
  try {
    fs.writeFileSync(`/proc/${pid}/oom_score_adj`, CELLS_SCORE);
  } catch {} // it has ended
}

function tell(outputs, origins, what, error) {
  try {
    const origin = origins.known() ?? origins.current();
    if (origin?.interrupted) return;
    origins.run(origin, () => {
      if (error instanceof Exit) outputs.notice(`${error.message}`);
      else outputs.stream('stderr', `${what} (the kernel goes on):\n${own.join(describe(error).traceback, '\n')}\n`);
    });
  } catch {
    return; // Node would end
  }
}

module.exports = { installProcess };
