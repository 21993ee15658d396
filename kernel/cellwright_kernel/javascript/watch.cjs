// The thread that listens for interrupts while the main thread computes.
//
// Flows in: four bytes an interrupt, the serial number of the cell. Flows out: a message to the main thread; and if that is
// not heard within 50 ms, the stop of whatever it executes. Decided here: when the pipe is closed, the kernel is gone, and
// this process ends, whatever it does.
'use strict';

const net = require('node:net');
const { Session } = require('node:inspector');
const { parentPort, workerData } = require('node:worker_threads');

const HEARD = 0;
const ASKED = 1;
const HEAR_MS = 50;
const STOP_MS = 200;

const { state, fd } = workerData;
const session = new Session();
session.connectToMainThread();
let tickets = 0;
let isStopping = false;

function interrupt(serial) {
  Atomics.store(state, ASKED, serial);
  const ticket = ++tickets;
  parentPort.postMessage({ ticket, serial });
  setTimeout(() => {
    if (Atomics.load(state, HEARD) < ticket && !isStopping) stop();
  }, HEAR_MS);
}

function stop() {
  isStopping = true;
  // if the main thread became free in this moment, the stop waits for the next code: let that be an empty message
  const timer = setTimeout(() => parentPort.postMessage({ ticket: ++tickets, serial: 0 }), STOP_MS);
  session.post('Runtime.terminateExecution', () => {
    clearTimeout(timer);
    isStopping = false;
  });
}

let rest = Buffer.alloc(0);
const control = new net.Socket({ fd, readable: true, writable: false });
control.on('data', (data) => {
  rest = Buffer.concat([rest, data]);
  for (; rest.length >= 4; rest = rest.subarray(4)) interrupt(rest.readUInt32LE(0));
});
control.on('end', () => process.kill(process.pid, 'SIGKILL'));
