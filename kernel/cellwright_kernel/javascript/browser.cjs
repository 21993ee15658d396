// Playwright's `browser`, `context` and `page` on the desktop's own Chromium, from the first cell that names them.
//
// Flows in: the address of Chromium's DevTools (CELLWRIGHT_CDP) and each cell's code. Flows out: the three objects as they are
// now, and a sentence when they are not the ones the model had. Decided here: when they are made, namely not before they are
// named, since Playwright takes 0.5 s and 70 MB to load; how it is known that they are alive; that nothing is emulated, so that
// a page has the size of its window; and that a dialog which opens in a cell of ours that does not listen for it is dismissed,
// and that is said.
'use strict';

const path = require('node:path');
const { inspect } = require('node:util');
const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const { compactSoon } = require('./compact.cjs');
const { OpenDialogs } = require('./dialogs.cjs');
const { PAGES_MS, havePatience } = require('./patient.cjs');
const { preparePictures } = require('./pictures.cjs');
const { typeNoPlaceholder } = require('./secrets.cjs');
const { givesSignOfLife } = require('./sign_of_life.cjs');
const { silentPages } = require('./silent.cjs');
const { loadNeeded, NEEDED_MS, PLAYWRIGHT_MS } = require('./unfinished.cjs');

const { Date, Error, Object, Promise, Reflect, Set, String, WeakSet, process, setTimeout } = globalThis;

const NAMES = ['browser', 'context', 'page'];
const NAMING = [...NAMES, 'ui']; // `ui` reads pages through the same objects
const WORDS = /\b(browser|context|page|ui)\b/;
const CONNECT_MS = 13_000; // of these, 3 s are for pages that do not answer
const ALIVE_MS = 5_000; // of a sign of life before anything was asked of it: it may still be starting
const ANSWER_MS = 2_000; // of a sign of life; 1 ms is usual, and a page that computes or shows a dialog does not lengthen it
const RESTART_MS = 5_000;
const TRY_EVERY_MS = 100;
const NEW_BROWSER = 'The browser was closed or restarted: `browser`, `context` and `page` are new objects.';
const CRASHING_MS = 300; // a page has it once, to answer; 1 ms is usual, and 50 until Chromium tells that it crashed
const NEW_PAGE = 'The page was closed or has crashed: `page` is now another page of the same browser.';

class BrowserHangs extends Error {
  constructor(waitedMs) {
    super(`it did not answer within ${waitedMs / 1000} s`);
  }
}

class BrowserLink {
  #outputs;
  #origins;
  #asks;
  #attached = null;
  #crashed = new WeakSet();
  #owing = null;
  #bound = {};
  // whether cells that do not name the objects get living ones too: a function of an earlier cell may use them. Not before
  // they were named, and not after they could not be made for such a cell, or the browser kept silent: it would again
  #isKept = false;
  dialogs = new OpenDialogs();
  loading = (load) => load();

  constructor(outputs, origins, asks) {
    this.#outputs = outputs;
    this.#origins = origins;
    this.#asks = asks;
  }

  /** Define what this cell names and is not there yet, then go on. */
  bind(code, evaluator, goOn) {
    const isNamed = WORDS.test(code) && names(code);
    if (!(isNamed || this.#isKept) || !process.env.CELLWRIGHT_CDP) return goOn();
    const lexical = new Set(evaluator.lexicalNames());
    const wanted = NAMES.filter((name) => !lexical.has(name) && this.#isFree(name));
    if (!wanted.length || (!isNamed && this.#looksAlive())) return goOn();
    const origin = this.#origins.current();
    // belongs to no cell, so that what a page's event handler prints belongs to the cell that runs then
    this.#origins.apart(() => this.#objects(isNamed, wanted.includes('page'))).then(
      (attached) => {
        for (const name of wanted) this.#set(name, attached[name]);
        goOn();
      },
      (error) => {
        if (isNamed && !origin.interrupted) this.#tellUnreachable(error);
        goOn();
      },
    );
  }

  /** Playwright's browser as it was last seen alive; null before a cell needed it. */
  get connected() {
    return this.#attached?.browser ?? null;
  }

  #tellUnreachable(error) {
    const [reason] = String(error.message).split('\n');
    const left = this.#bound.browser ? 'those from before' : 'not there';
    const advice = error instanceof BrowserHangs ? ' If it goes on so, end its process: another one is started.' : '';
    this.#outputs.notice(`The browser cannot be reached (${reason}); \`browser\`, \`context\` and \`page\` are ${left}.${advice}`);
  }

  #isFree(name) {
    return globalThis[name] === undefined || globalThis[name] === this.#bound[name];
  }

  #set(name, value) {
    this.#bound[name] = value;
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
  }

  #looksAlive() {
    const had = this.#attached;
    return had !== null && had.browser.isConnected() && !had.page.isClosed() && !this.#crashed.has(had.page);
  }

  /**
   * The three objects, alive: for a cell that names one, Chromium is asked for a sign of life, and waited for if it is being
   * started again. Where the model has a `page` of its own, it is told of no other one.
   */
  async #objects(isNamed, pageIsOurs) {
    this.#isKept = isNamed;
    const had = this.#attached;
    let attached;
    try {
      attached = had ? await this.#living(had, pageIsOurs, isNamed ? RESTART_MS : 0) : await this.#connect(0);
    } catch (error) {
      if (error instanceof BrowserHangs) this.#isKept = false;
      throw error;
    }
    this.#isKept = true;
    this.#attached = attached;
    return attached;
  }

  /** The same objects if they are alive, else others, and say so. */
  async #living(had, pageIsOurs, waitMs) {
    let attached = null;
    const asked = this.#ask(had.page);
    if (await answers(had)) {
      await asked;
      if (this.#looksAlive()) return had;
      attached = await this.#withLivingPage(had).catch(() => null);
    }
    if (!attached) {
      attached = await this.#connect(waitMs);
      this.#outputs.notice(NEW_BROWSER);
    } else if (pageIsOurs) {
      this.#outputs.notice(NEW_PAGE);
    }
    return attached;
  }

  /** Ask the page itself, unless it still owes an answer: of one that is just crashing, Chromium tells only then. */
  #ask(page) {
    if (this.#owing === page) return null;
    this.#owing = page;
    const asked = page.title().catch(() => {}).then(() => (this.#owing = null));
    return Promise.race([asked, new Promise((over) => setTimeout(over, CRASHING_MS))]);
  }

  async #withLivingPage({ browser, session, context }) {
    return { browser, session, context, page: await this.#livingPage(context) };
  }

  /** Connect, once more until `waitMs` are over: where Chromium is being started again, that takes a moment. */
  async #connect(waitMs) {
    this.loading(loadNeeded, NEEDED_MS);
    const { chromium } = this.loading(playwright, PLAYWRIGHT_MS);
    compactSoon();
    if (!(await givesSignOfLife(process.env.CELLWRIGHT_CDP, ALIVE_MS))) throw new BrowserHangs(ALIVE_MS);
    const end = Date.now() + waitMs;
    for (;;) {
      try {
        return await this.#connectOnce(chromium);
      } catch (error) {
        if (isTimeout(error)) throw new BrowserHangs(CONNECT_MS);
        if (Date.now() >= end) throw error;
        await new Promise((resolve) => setTimeout(resolve, TRY_EVERY_MS));
      }
    }
  }

  async #connectOnce(chromium) {
    const artifactsDir = process.env.CELLWRIGHT_DOWNLOADS;
    const began = Date.now();
    const browser = await chromium.connectOverCDP(process.env.CELLWRIGHT_CDP, { timeout: CONNECT_MS, artifactsDir });
    try {
      const attached = await this.#made(browser);
      if (Date.now() - began >= PAGES_MS) await this.#tellSilent(attached);
      return attached;
    } catch (error) {
      // another one is made at the next try, and this one would stay as long as the kernel; Chromium itself goes on
      browser.close().catch(() => {});
      throw error;
    }
  }

  async #made(browser) {
    const session = await browser.newBrowserCDPSession();
    const [context] = browser.contexts();
    const page = await this.#livingPage(context);
    this.dialogs.watch(context);
    context.on('dialog', (dialog) => this.#onDialog(dialog));
    if (process.env.CELLWRIGHT_SEED) await still(context);
    this.#prepare(page);
    preparePictures(page, (sentence) => this.#outputs.notice(sentence));
    return { browser, session, context, page };
  }

  async #tellSilent(attached) {
    try {
      for (const sentence of await silentPages(this.#asks, attached)) this.#outputs.notice(sentence);
    } catch {
      return; // it goes without saying: the pages that answer are there
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
      `${dialog.type() === 'alert' ? 'An' : 'A'} ${dialog.type()}() dialog of the page was dismissed: ${inspect(dialog.message())}. ` +
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
    connection.sendMessageToServer = (...args) => {
      if (this.#origins.known()?.interrupted) return new Promise(() => {});
      return Reflect.apply(send, connection, args);
    };
    connection.isGuarded = true; // last: a stop may come between
  }
}

/** Whether Chromium gives a sign of life: one that was killed a moment ago still counts as connected. */
async function answers({ browser, session }) {
  if (!browser.isConnected()) return false;
  try {
    await session.send('Browser.getVersion', {}, { timeout: ANSWER_MS });
    return true;
  } catch (error) {
    if (isTimeout(error)) throw new BrowserHangs(ANSWER_MS);
    return false;
  }
}

function isTimeout(error) {
  return error instanceof playwright().errors.TimeoutError;
}

function playwright() {
  havePatience();
  const loaded = require(path.join(path.dirname(process.execPath), 'package'));
  typeNoPlaceholder(loaded);
  return loaded;
}

/** Ask pages, also those to come, to leave out motion. Chromium has a flag for that, and Playwright tells pages otherwise. */
async function still(context) {
  const ask = (page) => page.emulateMedia({ reducedMotion: 'reduce' }).catch(() => {}); // it has been closed
  await Promise.all(context.pages().map(ask));
  context.on('page', ask);
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
      if (token.type.label === 'name' && NAMING.includes(token.value) && before !== '.' && before !== '?.') return true;
      before = token.type.label;
    }
    return false;
  } catch {
    return true;
  }
}

module.exports = { BrowserLink };
