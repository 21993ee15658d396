// The pages that did not answer when Playwright connected: named, so that the model knows of them and can close them.
//
// Flows in: a connection that is new. Flows out: sentences. Decided here, as in Python: that Chromium itself
// is asked which pages there are, since Playwright does not know one before it answers; how a page that waits for a server is
// known from one that hangs; and what is said of it.
'use strict';

const { Set } = globalThis;

const ANSWER_MS = 2_000;
const TOLD_MS = 500; // Chromium, and no page, tells of a page's navigation; 10 ms are usual
// The first is answered by the page, when it can, but tells at once of a navigation; the second is Chromium's own, and comes after.
const NAVIGATION = ['Page.enable', 'Page.getNavigationHistory'];
const MOST_NAMED = 3;
const URL_CHARS = 100;
const { setTimeout, clearTimeout } = globalThis;

/** Return a sentence for each of the first pages that Playwright does not know yet, and how many more there are. */
async function silentPages({ session, context, page }) {
  const { targetInfos } = await session.send('Target.getTargets', {}, { timeout: ANSWER_MS });
  const known = new Set();
  for (const one of context.pages()) known.add(await targetOf(context, one));
  const silent = targetInfos.filter(({ type, targetId }) => type === 'page' && !known.has(targetId));
  const said = [];
  for (const target of silent.slice(0, MOST_NAMED)) {
    said.push(sentence(target, page.url(), await awaitedByTarget(session, target.targetId)));
  }
  const more = silent.length - said.length;
  return more ? [...said, `${more} more of the pages do not answer.`] : said;
}

/** The address that a page, which does not answer, waits for a server to send; null when it waits for none. */
async function awaitedBy(page) {
  const session = await page.context().browser().newBrowserCDPSession();
  try {
    return await awaitedByTarget(session, await targetOf(page.context(), page));
  } finally {
    await session.detach();
  }
}

/**
 * Asks on a session of its own: Chromium tells each new one of a navigation under way, and asks the page nothing until its end.
 * Once the server has answered, the next page is up to a process, which may be busy: then the history is refused. Not a session of
 * Playwright's: to end one, Playwright asks the page.
 */
async function awaitedByTarget(session, targetId) {
  const options = { timeout: ANSWER_MS };
  const { sessionId } = await session.send('Target.attachToTarget', { targetId, flatten: false }, options);
  let take, timer;
  let begun = null;
  const told = new Promise((done) => {
    take = (event) => {
      if (event.sessionId !== sessionId) return;
      const { id, method, params, result } = JSON.parse(event.message);
      if (method === 'Page.frameStartedNavigating' && params.frameId === targetId) begun = params.url;
      if (id === NAVIGATION.length) done(result ? begun : null);
    };
    timer = setTimeout(done, TOLD_MS, null);
  });
  session.on('Target.receivedMessageFromTarget', take);
  try {
    for (const [at, method] of NAVIGATION.entries()) {
      const message = JSON.stringify({ id: at + 1, method });
      await session.send('Target.sendMessageToTarget', { sessionId, message }, options);
    }
    return await told;
  } finally {
    clearTimeout(timer);
    session.off('Target.receivedMessageFromTarget', take);
    await session.send('Target.detachFromTarget', { sessionId }, options);
  }
}

async function targetOf(context, page) {
  const own = await context.newCDPSession(page);
  const { targetInfo } = await own.send('Target.getTargetInfo', {}, { timeout: ANSWER_MS });
  own.detach().catch(() => {}); // before it is done the page is asked once more; it may take as long as that does not answer
  return targetInfo.targetId;
}

function sentence({ url, targetId }, other, awaited) {
  const close = `await (await browser.newBrowserCDPSession()).send('Target.closeTarget', { targetId: '${targetId}' })`;
  const first =
    awaited === null
      ? `The page ${cut(url)} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes ` +
        'without end, or its process was stopped. Until it answers'
      : `A page is still loading ${cut(awaited)}: its server has not answered yet. Until it does,`;
  return `${first} it is not in \`context.pages()\`; the others are, and \`page\` is ${cut(other)}. To close it: \`${close}\``;
}

function cut(url) {
  return url.length <= URL_CHARS ? url : `${url.slice(0, URL_CHARS)}...`;
}

module.exports = { awaitedBy, silentPages };
