// The thread that listens while the main thread computes: everything that comes in passes here, or is told of here.
//
// Flows in: requests, one JSON a line; and four bytes an interrupt, the serial number of the cell. Flows out: both, as
// messages to the main thread; and if an interrupt is not heard within 50 ms, the stop of whatever that executes. Decided
// here: a stop can hit our own code in the main thread too, so what was not heard is said again after it; and no request is
// said during one, so it cannot hit a later cell. When a pipe is closed, the kernel is gone, and this process ends.
'use strict';

const net = require('node:net');
const { Session } = require('node:inspector');
const { parentPort, workerData } = require('node:worker_threads');

const HEARD = 0;
const ASKED = 1;
const STOPPED = 2;
const HEAR_MS = 50;

const { state, requestsFd, controlFd } = workerData;
const session = new Session();
session.connectToMainThread();
let unheard = []; // messages, oldest first
let waiting = []; // requests that came during a stop
let tickets = 0;
let latest = 0; // serial of the cell that was passed on last
let straight = null; // the latest request, where it went to the main thread straight
let isStopping = false;

function pass(request) {
  if (isStopping) return waiting.push(request);
  if (request.do === 'run') latest = request.cell;
  if (request.straight) straight = request;
  else say({ request });
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
  const ticket = tickets;
  setTimeout(() => {
    if (Atomics.load(state, HEARD) < ticket && serial >= latest && !isStopping) stop(serial);
  }, HEAR_MS);
}

function stop(serial) {
  isStopping = true;
  Atomics.store(state, STOPPED, serial);
  session.post('Runtime.terminateExecution', () => {
    isStopping = false;
    forgetHeard();
    for (const message of unheard) parentPort.postMessage(message);
    if (straight) say({ request: straight });
    straight = null;
    interrupt(serial); // again: the stop may have hit what was being done about it
    for (const request of waiting.splice(0)) pass(request);
  });
}

function read(fd, take) {
  const pipe = new net.Socket({ fd, readable: true, writable: false });
  pipe.on('data', take);
  pipe.on('end', () => process.kill(process.pid, 'SIGKILL'));
  return pipe;
}

let line = '';
read(requestsFd, (text) => {
  const lines = (line + text).split('\n');
  line = lines.pop();
  for (const whole of lines) pass(JSON.parse(whole));
}).setEncoding('utf8');

let rest = Buffer.alloc(0);
read(controlFd, (data) => {
  rest = Buffer.concat([rest, data]);
  for (; rest.length >= 4; rest = rest.subarray(4)) interrupt(rest.readUInt32LE(0));
});
