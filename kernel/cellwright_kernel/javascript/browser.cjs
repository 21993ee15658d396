// Playwright's `browser`, `context` and `page` on the desktop's own Chromium, from the first cell that names them.
//
// Flows in: the address of Chromium's DevTools (CELLWRIGHT_CDP) and each cell's code. Flows out: the three objects as they are
// now, and a sentence when they are not the ones the model had. Decided here: when they are made, namely not before they are
// named, since Playwright takes 0.5 s and 70 MB to load; that nothing is emulated, so that a page has the size of its window;
// and that a dialog which opens in a cell of ours that does not listen for it is dismissed, and that is said.
'use strict';

const path = require('node:path');
const { inspect } = require('node:util');
const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const { OpenDialogs } = require('./dialogs.cjs');
const { preparePictures } = require('./pictures.cjs');

const NAMES = ['browser', 'context', 'page'];
const WORDS = /\b(browser|context|page)\b/;
const CONNECT_MS = 10_000;
const RESTART_MS = 5_000;
const TRY_EVERY_MS = 100;
const NEW_BROWSER = 'The browser was closed or restarted: `browser`, `context` and `page` are new objects.';
const NEW_PAGE = 'The page was closed or has crashed: `page` is now another page of the same browser.';

const { setTimeout } = globalThis;

class BrowserLink {
  #outputs;
  #origins;
  #attached = null;
  #crashed = new WeakSet();
  #bound = {};
  dialogs = new OpenDialogs();

  constructor(outputs, origins) {
    this.#outputs = outputs;
    this.#origins = origins;
  }

  /** Define what this cell names and is not there yet, then go on. */
  bind(code, evaluator, goOn) {
    const isNamed = WORDS.test(code) && names(code);
    if (!process.env.CELLWRIGHT_CDP || !(isNamed || this.#attached?.browser.isConnected())) return goOn();
    const lexical = new Set(evaluator.lexicalNames());
    const wanted = NAMES.filter((name) => !lexical.has(name) && this.#isFree(name));
    if (!wanted.length || (!isNamed && this.#isAlive())) return goOn();
    const origin = this.#origins.current();
    // belongs to no cell, so that what a page's event handler prints belongs to the cell that runs then
    this.#origins.apart(() => this.#objects(wanted.includes('page'))).then(
      (attached) => {
        for (const name of wanted) this.#set(name, attached[name]);
        goOn();
      },
      (error) => {
        const [reason] = String(error.message).split('\n');
        if (isNamed && !origin.interrupted) this.#outputs.notice(`The browser cannot be reached (${reason}); \`browser\`, \`context\` and \`page\` are not there.`);
        goOn();
      },
    );
  }

  #isFree(name) {
    return globalThis[name] === undefined || globalThis[name] === this.#bound[name];
  }

  #set(name, value) {
    this.#bound[name] = value;
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
  }

  #isAlive() {
    const had = this.#attached;
    return had !== null && had.browser.isConnected() && !had.page.isClosed() && !this.#crashed.has(had.page);
  }

  /** The three objects, alive; where the model has a `page` of its own, it is told of no other one. */
  async #objects(pageIsOurs) {
    if (this.#isAlive() && (await this.#answers())) return this.#attached;
    const had = this.#attached;
    let attached = had?.browser.isConnected() ? await this.#withLivingPage(had).catch(() => null) : null;
    if (attached) {
      if (pageIsOurs) this.#outputs.notice(NEW_PAGE);
    } else {
      attached = await this.#connect();
      if (had) this.#outputs.notice(NEW_BROWSER);
    }
    this.#attached = attached;
    return attached;
  }

  /** A browser that was killed a moment ago still counts as connected; 1 ms tells. */
  async #answers() {
    try {
      await this.#attached.session.send('Browser.getVersion');
      return true;
    } catch {
      return false;
    }
  }

  async #withLivingPage({ browser, session, context }) {
    return { browser, session, context, page: await this.#livingPage(context) };
  }

  /** Where Chromium was there before and is being started again, connecting takes a moment. */
  async #connect() {
    const { chromium } = require(path.join(path.dirname(process.execPath), 'package'));
    const end = Date.now() + (this.#attached ? RESTART_MS : 0);
    for (;;) {
      try {
        const artifactsDir = process.env.CELLWRIGHT_DOWNLOADS;
        const browser = await chromium.connectOverCDP(process.env.CELLWRIGHT_CDP, { timeout: CONNECT_MS, artifactsDir });
        const [context] = browser.contexts();
        this.dialogs.watch(context);
        context.on('dialog', (dialog) => this.#onDialog(dialog));
        const page = await this.#livingPage(context);
        this.#prepare(page);
        preparePictures(page, (sentence) => this.#outputs.notice(sentence));
        return { browser, session: await browser.newBrowserCDPSession(), context, page };
      } catch (error) {
        if (Date.now() >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
      }
    }
  }

  async #livingPage(context) {
    const living = context.pages().find((page) => !page.isClosed() && !this.#crashed.has(page));
    const page = living ?? (await context.newPage());
    page.on('crash', () => this.#crashed.add(page));
    return page;
  }

  /** Do what Playwright does with a dialog that nobody listens for, and say it. */
  async #onDialog(dialog) {
    const page = dialog.page();
    if (page?.listenerCount('dialog')) return;
    if (!this.#origins.current()?.open) return; // of another language's cell, or of nobody's: it stays on the screen
    try {
      if (dialog.type() === 'beforeunload') return await dialog.accept();
      await dialog.dismiss();
    } catch {
      return; // somebody else has answered it
    }
    this.#outputs.notice(
      `A ${dialog.type()}() dialog of the page was dismissed: ${inspect(dialog.message())}. ` +
        "To answer one yourself, register page.on('dialog', handler) before it opens.",
    );
  }

  /** Show Playwright's objects briefly, and let a cell that was interrupted call no further. */
  #prepare(page) {
    let owner = Object.getPrototypeOf(page);
    while (!Object.hasOwn(owner, '_wrapApiCall') && Object.getPrototypeOf(owner) !== Object.prototype) owner = Object.getPrototypeOf(owner);
    owner[inspect.custom] = brief;
    const connection = page._connection;
    const send = connection?.sendMessageToServer;
    if (typeof send !== 'function' || connection.isGuarded) return;
    connection.isGuarded = true;
    connection.sendMessageToServer = (...args) => {
      if (this.#origins.known()?.interrupted) return new Promise(() => {});
      return Reflect.apply(send, connection, args);
    };
  }
}

/** Such as `Page { url: 'about:blank' }`. */
function brief(_depth, options) {
  const facts = {};
  for (const name of ['url', 'status', 'method', 'name', 'type', 'message', 'suggestedFilename']) {
    try {
      const fact = typeof this[name] === 'function' && this[name].length === 0 ? this[name]() : undefined;
      if (typeof fact === 'string' || typeof fact === 'number') facts[name] = fact;
    } catch {
      continue;
    }
  }
  return `${this.constructor.name.replace(/^_|\d+$/g, '')} ${inspect(facts, options)}`;
}

/** Whether code mentions one of the names; a word in a text or a comment is no mention. */
function names(code) {
  try {
    let before = '';
    for (const token of acorn.tokenizer(code, { ecmaVersion: 'latest', allowHashBang: true })) {
      if (token.type.label === 'name' && NAMES.includes(token.value) && before !== '.' && before !== '?.') return true;
      before = token.type.label;
    }
    return false;
  } catch {
    return true;
  }
}

module.exports = { BrowserLink };
