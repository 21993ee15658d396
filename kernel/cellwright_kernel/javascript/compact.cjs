// What loading Playwright leaves behind is thrown away, a moment after.
//
// Flows in: that it was loaded; `--require` of this file says so for a Node that does nothing else, Playwright's driver.
// Flows out: nothing. Decided here: one full collection. Playwright is 3.6 MB of JavaScript in one file; Node would keep
// 15 MB of its parser's garbage, since its heap is far from the size at which it looks for any. It takes
// 0.2 to 0.4 s on a busy machine, once; a cell that runs then waits so long.
'use strict';

const v8 = require('node:v8');
const vm = require('node:vm');

const AFTER_MS = 1000; // by then it has connected
const { setTimeout } = globalThis; // cells get another one

function compactSoon() {
  setTimeout(() => {
    v8.setFlagsFromString('--expose-gc'); // for contexts made from here on: cells have none
    vm.runInNewContext('gc')({ type: 'major', flavor: 'last-resort' });
    v8.setFlagsFromString('--no-expose-gc');
  }, AFTER_MS).unref();
}

if (module.isPreloading) compactSoon();

module.exports = { compactSoon };
