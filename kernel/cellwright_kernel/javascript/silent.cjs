// The pages that did not answer when Playwright connected: named, so that the model knows of them and can close them.
//
// Flows in: a connection that is new. Flows out: sentences. Decided here, as in Python: that Chromium itself
// is asked which pages there are, since Playwright does not know one before it answers; and what is said of it.
'use strict';

const { Set } = globalThis;

const ANSWER_MS = 2_000;
const MOST_NAMED = 3;
const URL_CHARS = 100;

/** Return a sentence for each of the first pages that Playwright does not know yet, and how many more there are. */
async function silentPages({ session, context, page }) {
  const { targetInfos } = await session.send('Target.getTargets', {}, { timeout: ANSWER_MS });
  const known = new Set();
  for (const one of context.pages()) known.add(await targetOf(context, one));
  const silent = targetInfos.filter(({ type, targetId }) => type === 'page' && !known.has(targetId));
  const said = silent.slice(0, MOST_NAMED).map((target) => sentence(target, page.url()));
  const more = silent.length - said.length;
  return more ? [...said, `${more} more of the pages do not answer.`] : said;
}

async function targetOf(context, page) {
  const own = await context.newCDPSession(page);
  const { targetInfo } = await own.send('Target.getTargetInfo', {}, { timeout: ANSWER_MS });
  await own.detach();
  return targetInfo.targetId;
}

function sentence({ url, targetId }, other) {
  const close = `await (await browser.newBrowserCDPSession()).send('Target.closeTarget', { targetId: '${targetId}' })`;
  return (
    `The page ${cut(url)} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes without ` +
    'end, or its process was stopped. Until it answers it is not in `context.pages()`; the others are, and `page` is ' +
    `${cut(other)}. To close it: \`${close}\``
  );
}

function cut(url) {
  return url.length <= URL_CHARS ? url : `${url.slice(0, URL_CHARS)}...`;
}

module.exports = { silentPages };
