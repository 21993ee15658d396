// console -> one text for each call, exactly what Node prints without the newline.
//
// Flows in: calls. Flows out: texts. Decided here: Node's own Console formats them; only where they go is ours. The console
// object stays the one that `require('console')` gives.
'use strict';

const { Console } = require('node:console');

const KEPT = new Set(['Console', 'context', 'createTask', 'profile', 'profileEnd', 'timeStamp']);

function installConsole(outputs) {
  const stream = {
    write(text) {
      outputs.log(text.endsWith('\n') ? text.slice(0, -1) : text);
    },
    on() {},
    once() {},
    removeListener() {},
    listenerCount() {
      return 0;
    },
  };
  const own = new Console({ stdout: stream, stderr: stream, colorMode: false });
  for (const name of Object.keys(console)) {
    if (!KEPT.has(name) && typeof own[name] === 'function') console[name] = own[name];
  }
}

module.exports = { installConsole };
