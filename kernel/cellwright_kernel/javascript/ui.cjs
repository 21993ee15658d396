// `ui`: what stands on the screen by role and name, as in Python; each call gives a promise.
//
// Flows in: calls, and the browser as this kernel is connected with it. Flows out: requests to the kernel's Python side, which reads
// native programs, with what Playwright says of the pages; and its answers. Decided here: the forms of JavaScript: milliseconds,
// options as an object, `{ x, y, width, height }`; how long a page has for an answer.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { inspect } = require('node:util');
const vm = require('node:vm');
const { offer } = require('./asks.cjs');
const { awaitedBy } = require('./silent.cjs');

const functionIn = (name) => vm.runInThisContext(`(${fs.readFileSync(path.join(__dirname, '..', 'ui', name), 'utf8')})`);
const MEASURE = functionIn('page.js');
const FRAME = functionIn('frame.js');
const MEASURE_MS = 2_000;
const SNAPSHOT_MS = 5_000;
const FRAME_MS = 1_000;
const FRAMES = 30;
const PAGES = 50;
const AGAIN_MS = 100;
const SILENT = 'it is very large, computes, or shows a dialog';
const NO_BROWSER = 'Pages are not listed: the browser cannot be reached. Name `page` in a cell to connect anew.';

const { Array, Date, Error, Math, Number, Object, Promise, RangeError, String, TypeError } = globalThis;
const { process, setTimeout, clearTimeout } = globalThis;

class Ui {
  #asks;
  #browser;

  constructor(asks, browser) {
    this.#asks = asks;
    this.#browser = browser;
  }

  tree(window) {
    return this.#asks.whole(async (failure) => treeOf(await this.#look('tree', texts({ window }), failure)));
  }

  find(asked) {
    return this.#asks.whole(async (failure) => certain(await this.#look('find', wanted(asked), failure), failure));
  }

  wait(asked, timeout) {
    return this.#asks.whole(async (failure) => this.#wait(wanted(asked), milliseconds(asked, timeout), failure));
  }

  async #look(name, { role, name: called, exact, window }, failure) {
    const pages = name === 'find' && isWindow(role) ? [] : await this.#pages(failure);
    return this.#ask(name, [role ?? null, called ?? null, exact ?? false, window ?? null], pages, failure);
  }

  #ask(name, args, pages, failure) {
    return this.#asks.ask('ui', name, [pages, ...args], failure);
  }

  async #wait(asked, limitMs, failure) {
    const began = Date.now();
    for (;;) {
      const at = Date.now();
      const { elements, missing } = await this.#look('find', asked, failure);
      if (elements.length) return elementOf(elements[0]);
      const now = Date.now();
      if (now - began >= limitMs) {
        failure.name = 'TimeoutError';
        failure.message = `It did not come within ${limitMs / 1_000} s. ${missing}`;
        throw failure;
      }
      await new Promise((go) => setTimeout(go, Math.min(Math.max(AGAIN_MS, now - at), began + limitMs - now)));
    }
  }

  async #pages(failure) {
    if (!process.env.CELLWRIGHT_CDP) return [];
    const browser = this.#browser();
    if (!browser?.isConnected()) return [{ problem: NO_BROWSER }];
    const open = browser.contexts().flatMap((context) => context.pages());
    const pages = open.filter((page) => !page.isClosed()).slice(0, PAGES);
    const raws = await Promise.all(pages.map((page) => this.#answerOf(page, measured, MEASURE_MS)));
    const inSight = await this.#ask('in_sight', [], raws, failure);
    const withElements = async (raw, at) =>
      inSight[at] ? { ...raw, ...(await this.#answerOf(pages[at], read, SNAPSHOT_MS)) } : raw;
    return Promise.all(raws.map(withElements));
  }

  /** What a page says; it never fails for what a page does. */
  async #answerOf(page, asked, limitMs) {
    try {
      return await asked(page);
    } catch (error) {
      const late = async () =>
        `did not answer within ${limitMs / 1_000} s: ${await this.#whyLate(page)}. Its elements are not listed.`;
      const why = isLate(error) ? await late() : `was not read: ${String(error.message).split('\n')[0]}`;
      return { url: page.url(), problem: `The page ${page.url()} ${why}` };
    }
  }

  async #whyLate(page) {
    const awaited = await awaitedBy(this.#asks, page).catch(() => null);
    return awaited === null ? SILENT : `it is still loading ${awaited}, whose server has not answered yet`;
  }
}

/** `browser` gives Playwright's, as it is connected now; null when it is not. */
function installUi(asks, browser) {
  const ui = new Ui(asks, browser);
  offer('ui', {
    /** All windows with what is in them; as text an outline, one line an element. */
    tree: (window) => ui.tree(window),
    /**
     * The elements with a role and a name: ui.find({ role: 'button', name: 'OK' }). A LookupError when there is none, but
     * not all was read.
     */
    find: (asked) => ui.find(asked),
    /** The first of them, once it is there. */
    wait: (asked, timeout) => ui.wait(asked, timeout),
  });
}

function isLate(error) {
  return error.isLate || error.name === 'TimeoutError';
}

async function measured(page) {
  return { url: page.url(), measure: await within(MEASURE_MS, page.evaluate(MEASURE)) };
}

async function read(page) {
  let snapshot;
  try {
    snapshot = await snapshotOf(page, 'ai', SNAPSHOT_MS);
  } catch (error) {
    const silent = isLate(error) ? await silentFrame(page) : undefined;
    if (!silent) throw error;
    const own = await snapshotOf(page, 'default', MEASURE_MS); // without frames
    return { snapshot: own, frames: {}, left_out: frameSilent(page.url(), silent.url()) };
  }
  const frames = {};
  const place = async (ref) => {
    frames[ref] = await within(FRAME_MS, page.locator(`aria-ref=${ref}`).evaluate(FRAME)).catch(() => null);
  };
  await Promise.all(framesIn(snapshot).slice(0, FRAMES).map(place));
  return { snapshot, frames };
}

function snapshotOf(page, mode, timeout) {
  return within(timeout, page.ariaSnapshotJSON({ mode, boxes: true, timeout }));
}

/** The first frame in a page that does not answer. */
async function silentFrame(page) {
  const frames = page.frames().filter((frame) => frame !== page.mainFrame());
  const isSilent = (frame) => within(FRAME_MS, frame.evaluate('1')).then(() => false, isLate);
  const answers = await Promise.all(frames.slice(0, FRAMES).map(isSilent));
  return frames[answers.indexOf(true)];
}

function frameSilent(page, frame) {
  return (
    `The page ${page} has a frame that does not answer, ${frame}: it computes, or its process is stopped. Only the page's own ` +
    "elements are listed, and none of its frames'."
  );
}

function within(limitMs, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(Object.assign(new Error(''), { isLate: true })), limitMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function framesIn(nodes) {
  const refs = [];
  const waiting = [...nodes];
  while (waiting.length) {
    const { role, ref, children } = waiting.pop();
    if (role === 'iframe' && ref && children?.length) refs.push(ref);
    if (children) waiting.push(...children.filter((child) => typeof child === 'object'));
  }
  return refs;
}

/** `ui.find('button', 'OK')` is not what is offered: one object, whose fields have names. */
function wanted(asked) {
  if (typeof asked === 'object' && asked !== null) return texts(asked);
  throw new TypeError(`ui.find and ui.wait take an object: { role: 'button', name: 'OK' }; it was ${inspect(asked)}.`);
}

function texts(asked) {
  for (const field of ['role', 'name', 'window']) {
    const said = asked[field] ?? null;
    if (said === null || typeof said === 'string') continue;
    throw new TypeError(`${field} is a text, such as 'OK'; it was ${inspect(said)}.`);
  }
  return asked;
}

function milliseconds(asked, timeout) {
  const limit = timeout ?? asked.timeout ?? 10_000;
  if (Number.isFinite(limit) && limit >= 0 && limit <= 600_000) return limit;
  throw new RangeError(`timeout is in milliseconds, from 0 to 600000; it was ${inspect(limit)}.`);
}

function isWindow(role) {
  return typeof role === 'string' && role.trim().toLowerCase() === 'window';
}

/** Elements; asked for the first when there is none, it says what there is. */
class Found extends Array {
  static {
    // an array has its elements itself; only where it has no first one is its prototype asked
    Object.defineProperty(this.prototype, '0', {
      get() {
        throw Object.assign(new Error(this.missing), { name: 'LookupError' });
      },
      set(value) {
        Object.defineProperty(this, '0', { value, writable: true, enumerable: true, configurable: true });
      },
    });
  }
}

/** What was found; that there is nothing is no answer when not all was read. */
function certain(answer, failure) {
  if (answer.elements.length || answer.isWhole) return found(answer);
  failure.name = 'LookupError';
  failure.message = answer.missing;
  throw failure;
}

function found({ elements, missing }) {
  const list = Found.from(elements, elementOf);
  Object.defineProperty(list, 'missing', { value: missing, enumerable: false });
  return list;
}

function elementOf({ described, children, ...fields }) {
  const element = { ...fields, ...(children && { children: children.map(elementOf) }) };
  return shownAs(element, () => `<${described}>`);
}

function treeOf({ outline, windows, problems }) {
  return shownAs({ windows: windows.map(elementOf), problems }, () => outline);
}

function shownAs(value, text) {
  Object.defineProperty(value, 'toString', { value: text, enumerable: false });
  Object.defineProperty(value, inspect.custom, { value: text, enumerable: false });
  return value;
}

module.exports = { installUi };
