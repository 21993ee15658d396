// Whether Chromium's DevTools say anything at all, before Playwright connects, which would wait for it much longer.
//
// Flows in: their address. Flows out: false when somebody is there and keeps silent. Decided here: that whoever refuses has
// answered: Playwright says why it cannot connect.
'use strict';

const http = require('node:http');

const { Promise } = globalThis;

/** Ask for the version; an answer of any kind is one. */
function givesSignOfLife(address, withinMs) {
  return new Promise((done) => {
    const asking = http.get(`${address}/json/version`, { agent: false, signal: AbortSignal.timeout(withinMs) }, (answer) => {
      answer.resume().on('error', () => {});
      done(true);
    });
    asking.on('error', (error) => done(error.name !== 'AbortError' && error.name !== 'TimeoutError'));
  });
}

module.exports = { givesSignOfLife };
