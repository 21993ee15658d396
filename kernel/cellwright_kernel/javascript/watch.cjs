// The thread that listens while the main thread computes: everything that comes in passes here, or is told of here.
//
// Flows in: requests, one JSON a line; and interrupts, the same: the serial number of the cell, and its request where that
// went past here. Flows out: both, as messages to the main thread; and if an interrupt is not heard within 50 ms, the stop
// of whatever that executes, later only where Playwright is being loaded. Decided here: a stop can hit our own code in the main
// thread too, so what was not heard is said again after it; and no request is said during one, so it cannot hit a later cell.
// When a pipe is closed, the kernel is gone, and this process ends.
'use strict';

const net = require('node:net');
const { Session } = require('node:inspector');
const { parentPort, workerData } = require('node:worker_threads');

const HEARD = 0;
const ASKED = 1;
const STOPPED = 2;
const LOADING = 3;
const HEAR_MS = 50;

const { state, requestsFd, controlFd } = workerData;
const session = new Session();
session.connectToMainThread();
let unheard = []; // messages, oldest first
let waiting = []; // requests that came during a stop
let tickets = 0;
let latest = 0; // serial of the cell that was passed on last
let straight = null; // the request of the interrupted cell, where that went to the main thread straight
let isStopping = false;

function pass(request) {
  if (isStopping) return waiting.push(request);
  if (request.do === 'run') latest = request.cell;
  say({ request });
}

function say(what) {
  const message = { ticket: ++tickets, ...what };
  forgetHeard();
  unheard.push(message);
  parentPort.postMessage(message);
}

function forgetHeard() {
  const heard = Atomics.load(state, HEARD);
  unheard = unheard.filter(({ ticket }) => ticket > heard);
}

/** Ask a cell to end, and see that this is heard. A cell before the latest one was answered already. */
function interrupt(serial) {
  if (serial < latest) return;
  Atomics.store(state, ASKED, serial);
  say({ interrupt: serial });
  stopUnlessHeard(serial, tickets, 0);
}

/** What loads Playwright is let finish, if it does soon: of Node's own modules, one that was stopped half way stays so. */
function stopUnlessHeard(serial, ticket, waitedMs) {
  setTimeout(() => {
    if (Atomics.load(state, HEARD) >= ticket || serial < latest || isStopping) return;
    if (Atomics.load(state, LOADING) > waitedMs) stopUnlessHeard(serial, ticket, waitedMs + HEAR_MS);
    else stop(serial);
  }, HEAR_MS);
}

function stop(serial) {
  isStopping = true;
  Atomics.store(state, STOPPED, serial);
  session.post('Runtime.terminateExecution', () => {
    isStopping = false;
    Atomics.store(state, LOADING, 0); // the stop passes by `finally`
    forgetHeard();
    for (const message of unheard) parentPort.postMessage(message);
    if (straight) say({ request: straight });
    straight = null;
    interrupt(serial); // again: the stop may have hit what was being done about it
    for (const request of waiting.splice(0)) pass(request);
  });
}

function read(fd, take) {
  const pipe = new net.Socket({ fd, readable: true, writable: false }).setEncoding('utf8');
  let line = '';
  pipe.on('data', (text) => {
    const lines = (line + text).split('\n');
    line = lines.pop();
    for (const whole of lines) take(JSON.parse(whole));
  });
  pipe.on('end', () => process.kill(process.pid, 'SIGKILL'));
}

read(requestsFd, pass);
read(controlFd, ({ serial, request }) => {
  if (request) straight = request;
  interrupt(serial);
});
