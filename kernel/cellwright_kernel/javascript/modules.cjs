// `require` and `import` as cells see them.
//
// Flows in: names of modules. Flows out: modules. Decided here: a cell stands in the folder where the kernel is; `playwright`
// is the one that came with this Node and always fits the browser, and types no placeholder however it was loaded.
'use strict';

const { createRequire, registerHooks } = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { havePatience } = require('./patient.cjs');
const { typeNoPlaceholder } = require('./secrets.cjs');
const { IMPORT, IMPORT_META, KEEP, keep } = require('./source.cjs');
const { Unfinished, loadNeeded, NEEDED_MS, PLAYWRIGHT_MS } = require('./unfinished.cjs');

const { Object, SyntaxError, process } = globalThis;

const OWN = pathToFileURL(__filename).href;
const PLAYWRIGHT = /^playwright(-core)?(\/.*)?$/;
const PACKAGE = path.join(path.dirname(process.execPath), 'package');

class Modules {
  #unfinished = new Unfinished();
  #origins;
  loading = (load) => load();

  constructor(origins) {
    this.#origins = origins;
  }

  install() {
    registerHooks({
      resolve: (name, context, next) => {
        const found = this.#resolve(name, context, next);
        this.#unfinished.asked(found.url, this.#origins.known());
        return found;
      },
    });
    const require = (name) => {
      const load = () => createRequire(place())(name);
      if (!PLAYWRIGHT.test(name)) return load();
      this.loading(loadNeeded, NEEDED_MS);
      const playwright = this.loading(load, PLAYWRIGHT_MS);
      typeNoPlaceholder(playwright);
      return playwright;
    };
    Object.defineProperties(require, {
      resolve: { get: () => createRequire(place()).resolve },
      cache: { get: () => createRequire(place()).cache },
      main: { value: undefined },
    });
    const module = { exports: {}, id: '<cell>', filename: place(), loaded: true, children: [], paths: [], require };
    define({ require, module, exports: module.exports });
    define({ [IMPORT]: load }, false);
    Object.defineProperty(globalThis, KEEP, { value: keep });
    Object.defineProperties(globalThis, {
      __filename: { get: place, set: replace('__filename'), configurable: true },
      __dirname: { get: () => process.cwd(), set: replace('__dirname'), configurable: true },
      [IMPORT_META]: { get: meta, configurable: true },
    });
  }

  /** After an interrupt, with nothing else on the stack. */
  forgetUnfinished() {
    this.#unfinished.forget();
  }

  #resolve(name, context, next) {
    const found = PLAYWRIGHT.exec(name);
    if (found) {
      havePatience();
      const isImport = context.conditions.includes('import');
      const file = path.join(PACKAGE, found[2] ?? (isImport ? 'index.mjs' : 'index.js'));
      return next(isImport ? pathToFileURL(file).href : file, context);
    }
    const isOfCell = context.parentURL === OWN;
    return next(name, isOfCell ? { ...context, parentURL: pathToFileURL(place()).href } : context);
  }
}

/** import(), and what a static import becomes: then `wanted` are the names that must be there. */
async function load(name, options, wanted = []) {
  const module = await import(name, options);
  if (PLAYWRIGHT.test(name)) typeNoPlaceholder(module);
  for (const one of wanted) {
    if (!(one in module)) throw new SyntaxError(`The module '${name}' does not provide an export named '${one}'`);
  }
  return module;
}

function place() {
  return path.join(process.cwd(), 'cell.js');
}

function meta() {
  const { resolve } = createRequire(place());
  return {
    dirname: process.cwd(),
    filename: place(),
    url: pathToFileURL(place()).href,
    resolve: (name) => {
      const found = resolve(name);
      return path.isAbsolute(found) ? pathToFileURL(found).href : found;
    },
  };
}

function define(values, enumerable = true) {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable });
  }
}

function replace(name) {
  return (value) => define({ [name]: value });
}

module.exports = { Modules };
