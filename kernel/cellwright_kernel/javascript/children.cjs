// Children that inherit a cell's output write to pipes of their cell.
//
// Flows in: the arguments of a start; for each cell, two descriptors of the parent process. Flows out: the arguments, with the
// cell's own pipes in the place of what would be inherited. Decided here: a pipe is opened when the first child wants it;
// a start by a cell that has ended inherits this process's own output.
'use strict';

const fs = require('node:fs');

const { Array, process } = globalThis;
const { isArray } = Array;
const { closeSync, openSync } = fs;

/** Those that may inherit, and where their options stand if there are no arguments for the program. */
const INHERITING = { __proto__: null, execFileSync: 1, execSync: 1, fork: 1, spawn: 1, spawnSync: 1 };
const STREAMS = [null, 'stdout', 'stderr'];

class Children {
  #origin = null;
  #offered = [];
  #opened = null;

  /** `offered`: descriptors of the parent, for stdout and stderr. */
  begin(origin, offered) {
    if (this.#opened) {
      closeSync(this.#opened[1]);
      closeSync(this.#opened[2]);
    }
    this.#opened = null;
    this.#origin = origin;
    this.#offered = offered ?? [];
  }

  /** The arguments to start a child with for `origin`, or null where they stay as they are. */
  redirected(origin, name, args) {
    if (origin !== this.#origin || !INHERITING[name] || !this.#offered.length) return null;
    const at = name !== 'execSync' && (isArray(args[1]) || (args[1] ?? null) === null) ? 2 : 1;
    const options = args[at] ?? {};
    if (typeof options !== 'object' || isArray(options)) return null;
    const given = options.stdio ?? (name === 'fork' && !options.silent ? 'inherit' : null);
    const wanted = given === 'inherit' ? ['inherit', 1, 2] : given;
    if (!isArray(wanted) || !wanted.some(isOurs)) return null;
    const fds = this.#fds();
    if (!fds) return null;
    const stdio = wanted.map((what, index) => (isOurs(what, index) ? fds[streamOf(what, index)] : what));
    if (name === 'fork' && given === 'inherit') stdio.push('ipc');
    const changed = [...args];
    changed[at] = { ...options, stdio };
    return changed;
  }

  #fds() {
    try {
      return (this.#opened ??= [null, ...this.#offered.map((fd) => openSync(`/proc/${process.ppid}/fd/${fd}`, 'a'))]);
    } catch {
      return null;
    }
  }
}

function isOurs(what, index) {
  return streamOf(what, index) > 0;
}

/** 1 or 2 where a child would get this process's own output or error; else 0. */
function streamOf(what, index) {
  if (what === 'inherit') return index === 1 || index === 2 ? index : 0;
  for (const fd of [1, 2]) if (what === fd || what === process[STREAMS[fd]]) return fd;
  return 0;
}

module.exports = { Children };
