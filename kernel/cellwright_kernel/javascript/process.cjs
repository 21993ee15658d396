// The process, as cells see it: it is not theirs to end.
//
// Flows in: writes to its output, process.exit(), errors that nobody caught. Flows out: texts under the cell that caused
// them. Decided here: process.exit() ends the cell; an unhandled rejection or an exception in a callback is told, and the
// kernel goes on.
'use strict';

const { Exit, describe } = require('./errors.cjs');

function installProcess(outputs, origins) {
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
  process.on('uncaughtException', (error) => tell(outputs, origins, 'Uncaught exception', error));
  process.on('unhandledRejection', (reason) => tell(outputs, origins, 'Unhandled promise rejection', reason));
}

function tell(outputs, origins, what, error) {
  const origin = origins.known() ?? origins.current();
  if (origin?.interrupted) return;
  origins.run(origin, () => {
    if (error instanceof Exit) outputs.notice(`${error.message}`);
    else outputs.stream('stderr', `${what} (the kernel goes on):\n${describe(error).traceback.join('\n')}\n`);
  });
}

module.exports = { installProcess };
