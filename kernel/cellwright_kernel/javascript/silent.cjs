// What is said of pages that do not answer: named, so that the model knows of them and can close them.
//
// Flows in: Playwright's pages. Flows out: requests to the kernel's Python side, which asks Chromium, and its answers. Decided
// here: how a page of Playwright's is known to Chromium.
'use strict';

const ANSWER_MS = 2_000;

/** A sentence for each of the first pages that Playwright does not know yet, and how many more there are. */
async function silentPages(asks, { context, page }) {
  const known = [];
  for (const one of context.pages()) known.push(await targetOf(one));
  return asks.ask('silent_pages', 'silent_pages', [known, page.url(), 'javascript']);
}

/** The address that a page, which does not answer, waits for a server to send; null when it waits for none. */
async function awaitedBy(asks, page) {
  return asks.ask('silent_pages', 'awaited_by', [await targetOf(page)]);
}

async function targetOf(page) {
  const own = await page.context().newCDPSession(page);
  const { targetInfo } = await own.send('Target.getTargetInfo', {}, { timeout: ANSWER_MS });
  own.detach().catch(() => {}); // before it is done the page is asked once more; it may take as long as that does not answer
  return targetInfo.targetId;
}

module.exports = { awaitedBy, silentPages };
