// `page.screenshot()` comes with what the page looks like now, also when a font of it never comes.
//
// Flows in: a page. Flows out: Playwright's picture, and a sentence when it shows the page without one of its fonts. Decided
// here, as in Python: how long a font is waited for. Playwright's own wait of 30 s is switched off by the environment.
'use strict';

const { Object, Promise, Reflect, setTimeout, clearTimeout } = globalThis;

const FONTS_MS = 2_000;
const PAGE_MS = 3_000;
const WITHOUT_FONTS =
  `A font of the page had not come after ${FONTS_MS / 1000} s. The picture shows the page as it is without it: ` +
  'text may be missing, or stand in another font.';

/** Have all pages take pictures like this. */
function preparePictures(page, say) {
  const pages = Object.getPrototypeOf(page);
  const { screenshot } = pages;
  if (screenshot.isPatient) return;
  pages.screenshot = async function (options) {
    if (!(await hasFonts(this))) say(WITHOUT_FONTS);
    return await Reflect.apply(screenshot, this, [options]);
  };
  pages.screenshot.isPatient = true;
}

/** False if one is still on its way. A page that does not even answer that is Playwright's to report. */
async function hasFonts(page) {
  let timer;
  const late = new Promise((done) => (timer = setTimeout(done, PAGE_MS, true)));
  const there = page.evaluate(areThere, FONTS_MS).catch(() => true);
  const found = await Promise.race([there, late]);
  clearTimeout(timer);
  return found;
}

/* Runs in the page. */
function areThere(limit) {
  return Promise.race([document.fonts.ready.then(() => true), new Promise((done) => setTimeout(done, limit, false))]);
}

module.exports = { preparePictures };
