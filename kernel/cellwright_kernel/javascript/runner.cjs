// What Node runs: one JavaScript kernel's cells, until its pipes are closed.
//
// Flows in: four descriptors and the words of placeholders on the command line, then requests, one JSON a line. Flows out: messages, the same way.
// Decided here: which parts there are and how they are joined. Nothing in these files may wait for a promise of its own
// where a cell depends on it: stopping an endless loop throws away whatever the promises of that moment had left to do.
'use strict';

const { Asks } = require('./asks.cjs');
const { Channel } = require('./channel.cjs');
const { Children } = require('./children.cjs');
const { installClipboard } = require('./clipboard.cjs');
const { Origins } = require('./origins.cjs');
const { Outputs } = require('./outputs.cjs');
const { Evaluator } = require('./evaluator.cjs');
const { Interrupts } = require('./interrupts.cjs');
const { Cells } = require('./cells.cjs');
const { Modules } = require('./modules.cjs');
const { BrowserLink } = require('./browser.cjs');
const { Completion } = require('./completion.cjs');
const { installConsole } = require('./console.cjs');
const { installDisplay } = require('./display.cjs');
const { installErrors } = require('./errors.cjs');
const { installParams } = require('./params.cjs');
const { installPeople } = require('./people.cjs');
const { installProcess } = require('./process.cjs');
const { installScreen } = require('./screen.cjs');
const { installSecrets } = require('./secrets.cjs');
const { installTimers } = require('./timers.cjs');
const { installUi } = require('./ui.cjs');

const [requestsFd, messagesFd, controlFd, cellsFd] = process.argv.slice(2, 6).map(Number);
const placeholderWords = JSON.parse(process.argv[6]);
process.argv.length = 1;
process.execArgv = [];

const interrupts = new Interrupts(requestsFd, controlFd, cellsFd);
const channel = new Channel(messagesFd);
const origins = new Origins();
const outputs = new Outputs(channel, origins);
const modules = new Modules(origins);
installErrors();
installConsole(outputs);
installDisplay(outputs, origins);
installTimers(origins);
modules.install();
const asks = new Asks(channel, origins);
const browser = new BrowserLink(outputs, origins, asks);
installScreen(asks);
installClipboard(asks);
installSecrets(asks, placeholderWords);
installPeople(asks);
installUi(asks, () => browser.connected);
installParams();
const evaluator = new Evaluator();
const completion = new Completion(evaluator);
const children = new Children();
const cells = new Cells({ channel, children, origins, outputs, evaluator, browser, modules });
installProcess(outputs, origins, children);
browser.loading = modules.loading = (load, patienceMs) => interrupts.loading(load, patienceMs);
cells.wasInterrupted = (serial) => interrupts.wasAsked(serial);
cells.wasStopped = (serial) => interrupts.wasStopped(serial);

function take(request) {
  if (request.do === 'run') cells.run(request);
  else if (request.do === 'tell') asks.take(request);
  else if (request.do === 'fail') cells.fail(request);
  else channel.send({ type: 'answer', id: request.id, content: completion[request.do](request) });
}

interrupts.listen(take, (serial) => cells.interrupt(serial));
