// Modules whose loading an interrupt has ended half way are forgotten: the next `require` or `import` loads them anew.
//
// Flows in: which cell asked for a module first, and that a cell was interrupted. Flows out: nothing. Decided here: which modules
// those are. A stop passes by the `finally` with which Node forgets a module that throws, so that `require` would go on to
// give what there was of it, `import` would fail with null or never end, and Playwright would be lost to the kernel: what it
// needs of Node, which cannot be forgotten, is loaded before it.
'use strict';

const { getOrInitializeCascadedLoader } = require('internal/modules/esm/loader');
const { fileURLToPath } = require('node:url');
const { inspect } = require('node:util');
const { forgetPatience } = require('./patient.cjs');
const { own } = require('./own.cjs');

const { Map, Object, Set } = globalThis;

/** How long an interrupt waits for what is being loaded; that of Playwright is forgotten and loaded anew, once stopped. */
const PLAYWRIGHT_MS = 300; // the next rung of the deadline's ladder follows the interrupt after a second
const NEEDED_MS = 2000; // the kernel is killed 3 s after; on a machine with ten times too much to do it took 1 s

/** What Playwright needs of Node. Of Node's own, a module that was stopped half way cannot be forgotten. */
const NEEDED = [
  'assert', 'crypto', 'dns', 'fs/promises', 'http2', 'https', 'perf_hooks', 'readline', 'readline/promises', 'stream/web', 'tls', 'tty',
  'zlib',
];
const INSTANTIATING = 1;
const EVALUATING = 3;
const EVALUATED = 4; // or, behind an `await`, on its way to that
const ERRORED = 5;

class Unfinished {
  #askedBy = new Map(); // a module's URL or path -> the cell

  asked(name, origin) {
    if (!this.#askedBy.has(name)) this.#askedBy.set(name, origin);
  }

  /** Call only with nothing else on the stack: a module that is being loaded then is one that nobody loads any more. */
  forget() {
    const forgotten = forgetRequired();
    for (const [url, jobs] of own.entries(getOrInitializeCascadedLoader().loadCache)) {
      for (const type in jobs) {
        const module = jobs[type]?.module;
        if (!module || !(isBroken(module) || forgotten.has(pathOf(url)) || this.#isWaiting(url, module))) continue;
        jobs[type] = undefined;
        this.#askedBy.delete(url);
      }
    }
  }

  /** Whether it waits for what ended with its cell: a timer, say, or another module. */
  #isWaiting(url, module) {
    if (!this.#askedBy.get(url)?.interrupted) return false;
    return module.getStatus() !== EVALUATED || isPending(module.evaluate(-1, false));
  }
}

/**
 * A tenth of what loading Playwright takes (110 ms of 1300 on a busy machine): load it first, where no stop comes so soon. Not at
 * the kernel's start: that would take as long, and 7 MB of every kernel, Playwright itself 0.5 s and 60 MB.
 */
function loadNeeded() {
  for (const name of NEEDED) require(name);
}

/** Return the paths of what `require` has begun, and has not ended. */
function forgetRequired() {
  const modules = Object.values(require.cache);
  const halves = new Set(modules.filter((module) => !module.loaded));
  for (const { filename } of halves) delete require.cache[filename];
  for (const module of modules) {
    if (module.children.some((child) => halves.has(child))) module.children = module.children.filter((child) => !halves.has(child));
  }
  const paths = new Set([...halves].map(({ filename }) => filename));
  forgetPatience(paths);
  return paths;
}

function isBroken(module) {
  const status = module.getStatus();
  return status === INSTANTIATING || status === EVALUATING || (status === ERRORED && module.getError() === null);
}

function isPending(promise) {
  own.then(promise, undefined, () => {});
  return inspect(promise).startsWith('Promise { <pending>');
}

function pathOf(url) {
  return url.startsWith('file:') ? fileURLToPath(url) : null;
}

module.exports = { Unfinished, loadNeeded, NEEDED_MS, PLAYWRIGHT_MS };
