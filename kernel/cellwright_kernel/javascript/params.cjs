// `params`: the parameters of the run, as in Python; a frozen object of strings.
//
// Flows in: a variable of the environment. Flows out: the name, where the session has parameters. Decided here: a name that is
// not there gives undefined, as with any object, also where objects in general have something of that name.
'use strict';

const { offer } = require('./asks.cjs');

const { JSON, Object } = globalThis;

function installParams() {
  const said = process.env.CELLWRIGHT_PARAMS;
  if (said) offer('params', Object.freeze(Object.assign(Object.create(null), JSON.parse(said))));
}

module.exports = { installParams };
