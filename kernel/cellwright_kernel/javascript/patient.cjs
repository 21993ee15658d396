// Playwright connects to a browser in bounded time, also when one of its pages answers nothing.
//
// Flows in: Playwright's own source, as it is loaded: in this kernel, and with `--require` of this file in the driver that
// serves Python. Flows out: the same source, two waits of it bounded. Decided here: how long the pages that are there when it
// connects are waited for. One that computes without end, or whose process is stopped, would hold up all others until the
// whole connection is given up; like this it is not among the context's pages until it answers, and is then.
//
// There is no option for it, and nothing of Playwright's inside that could be reached from outside: it is one file. Where a
// version has other words, nothing is replaced, and it waits as it always did; a test says so.
'use strict';

const { registerHooks } = require('node:module');

const PAGES_MS = 3_000; // for all together; 50 ms are usual, and a second on a machine under load
const OPENER_MS = 1_000; // of a page that a silent one has opened: then it is without an opener
const BUNDLE = /\/playwright[^/]*\/(?:[^/]+\/)*package\/lib\/coreBundle\.js$/;
const WAITS = [
  ['await Promise.all([...this._crPages.values()].map((crPage) => crPage._page.waitForInitializedOrError()))', PAGES_MS],
  ['await opener.waitForInitializedOrError()', OPENER_MS],
];

let hooks = null;

/** Have Playwright be patient if it is loaded from here on; the hook goes with the first time. */
function havePatience() {
  hooks ??= registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!BUNDLE.test(url)) return loaded;
      hooks.deregister();
      return { ...loaded, source: bounded(String(loaded.source)) };
    },
  });
}

/** Have it be patient again where its loading was stopped half way, with the hook gone or not. */
function forgetPatience(paths) {
  for (const path of paths) {
    if (!BUNDLE.test(path)) continue;
    hooks?.deregister();
    hooks = null;
  }
}

function bounded(source) {
  for (const [wait, ms] of WAITS) {
    const patience = `new Promise((over) => require("node:timers").setTimeout(over, ${ms}).unref())`;
    source = source.replace(wait, () => `await Promise.race([${wait.slice('await '.length)}, ${patience}])`);
  }
  return source;
}

if (module.isPreloading) havePatience();

module.exports = { PAGES_MS, WAITS, forgetPatience, havePatience };
