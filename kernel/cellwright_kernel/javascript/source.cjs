// A cell's code -> what the inspector is given.
//
// Flows in: code as the model wrote it, and that it did not compile. Flows out: text to evaluate, with every line where it
// was. Decided here: what is changed: `import` and `export`, which evaluation does not know; a last statement in braces, which
// is an object if it can be one; and a last expression, whose value is passed on in a box where it is a large text: of an
// object the inspector hands out an id, of a text several copies, of which 400 MiB were the kernel's end. To parse a cell takes
// 0.05 ms, to have a value in a box 0.1. What does not compile is tried again without its TypeScript types.
'use strict';

const acorn = require('internal/deps/acorn/acorn/dist/acorn');
const walk = require('internal/deps/acorn/acorn-walk/dist/walk');
const { stripTypeScriptTypes } = require('node:module');
const { setShift } = require('./errors.cjs');

const { JSON, RegExp, SyntaxError } = globalThis;

const PARSE = {
  ecmaVersion: 'latest',
  sourceType: 'script',
  allowAwaitOutsideFunction: true,
  allowImportExportEverywhere: true,
  allowHashBang: true,
};
/** What stands in the place of `import` and `import.meta`, of the same length. */
const IMPORT = 'esmod$';
const IMPORT_META = 'import_meta';
const KEEP = 'cell_value$';
const COPIED_CHARS = 64 * 1024;

/** A line without anything in which a bracket might not be one (texts, comments, patterns), and without an end of a statement. */
const PLAIN = /^[^\n\r\u2028\u2029;'"`/{}<#]{1,1000}$/;
const STATEMENT =
  /^\s*(?:async|break|class|const|continue|debugger|do|export|for|function|if|import|let|return|static|switch|throw|try|using|var|while|with|yield)(?![\w$])|\bimport\b/;

const MODULE_WORD = /\b(import|export)\b/;
const STATEMENT_IN_BRACES = /(^|[;\n])[ \t]*\{/;
const BRACE = /(?<=^|[;\n][ \t]*)\{/g;
const MAX_TRIES = 20;

class Source {
  #stripped = null; // the code without its types, once that was tried
  #first = null; // how it failed at first
  #typeError = null;
  #isPlain = false;

  constructor(code, number) {
    this.code = code;
    this.number = number;
    setShift(number, null);
  }

  /** What to evaluate at first. */
  first() {
    this.#isPlain = isPlainExpression(this.code);
    if (!this.#isPlain) return this.#prepared(this.code);
    return this.#named(edited(this.code, this.#enclosed(this.code, 0, this.code.length, `${KEEP}((`, '))')));
  }

  /** What to evaluate after it did not compile; null when there is nothing else to try. */
  next(failure) {
    if (this.#isPlain) {
      this.#isPlain = false;
      return this.#prepared(this.code);
    }
    if (this.#first) return null;
    this.#first = failure;
    try {
      this.#stripped = stripTypeScriptTypes(this.code);
    } catch (error) {
      this.#typeError = error;
      return null;
    }
    return this.#stripped === this.code ? null : this.#prepared(this.#stripped);
  }

  /** How it failed, as `describeSyntax` takes it. */
  failure(last) {
    const failure = { ...(this.#first ?? last), number: this.number };
    if (this.#typeError?.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
      failure.hint = `${this.#typeError.message.trim().split('\n').at(-1).trim()}. Only types can be removed from TypeScript here.`;
    }
    const { message } = failure.syntaxError;
    const declared = /^Identifier '(.+)' has already been declared$/.exec(message)?.[1];
    if (declared) return { ...failure, ...placeOf(declared, this.code), hint: hintFor(declared) };
    if (MODULE_WORD.test(message)) return { ...failure, ...placeByParser(this.code) };
    return failure;
  }

  #prepared(code) {
    const edits = [];
    const tree = parsed(code);
    if (tree && MODULE_WORD.test(code)) edits.push(...moduleEdits(tree, code));
    const at = mayEndInObject(code) ? objectAt(tree, code) : -1;
    const last = at < 0 ? lastExpression(tree) : null;
    if (at >= 0) edits.push(...this.#enclosed(code, at, code.trimEnd().length, '(', ')'));
    else if (last) edits.push(...this.#enclosed(code, last.start, last.end - (code[last.end - 1] === ';'), `${KEEP}((`, '))'));
    return this.#named(edited(code, edits));
  }

  #named(text) {
    return `${text}\n//# sourceURL=<cell-${this.number}>`;
  }

  #enclosed(code, start, end, open, close) {
    const opening = start === 0 ? open : `;${open}`;
    const line = code.slice(0, start).split('\n').length;
    setShift(this.number, [line, start - code.lastIndexOf('\n', start - 1) - 1, opening.length]);
    return [
      [start, start, opening],
      [end, end, close],
    ];
  }
}

/** A value that the inspector would copy. */
class Boxed {
  #value;

  constructor(value) {
    this.#value = value;
  }

  static unpacked(value) {
    return typeof value === 'object' && value !== null && #value in value ? value.#value : value;
  }
}

/** What a cell's last expression is given to, under the name of `KEEP`. */
function keep(value) {
  const isCopied = typeof value === 'string' ? value.length > COPIED_CHARS : typeof value === 'bigint' || typeof value === 'symbol';
  return isCopied ? new Boxed(value) : value;
}

/** Whether code is, if it compiles at all, one expression: it needs no parser to be put in brackets. */
function isPlainExpression(code) {
  if (!PLAIN.test(code) || STATEMENT.test(code)) return false;
  let depth = 0;
  for (let at = 0; at < code.length; at++) {
    if (code[at] === '(') depth++;
    else if (code[at] === ')' && --depth < 0) return false;
  }
  return depth === 0;
}

function parsed(code) {
  try {
    return acorn.parse(code, PARSE);
  } catch {
    return null;
  }
}

function isObject(text) {
  try {
    return acorn.parse(`(${text}\n)`, PARSE).body[0].expression?.type === 'ObjectExpression';
  } catch {
    return false;
  }
}

function mayEndInObject(code) {
  return code.trimEnd().endsWith('}') && STATEMENT_IN_BRACES.test(code);
}

/** The last statement if it is an expression and no directive; else null. */
function lastExpression(tree) {
  const last = tree?.body.at(-1);
  return last?.type === 'ExpressionStatement' && last.directive === undefined ? last : null;
}

/** Where the object begins that the code ends in; -1 when it ends in anything else. */
function objectAt(tree, code) {
  if (tree) {
    const last = tree.body.at(-1);
    return last?.type === 'BlockStatement' && isObject(code.slice(last.start)) ? last.start : -1;
  }
  let tries = 0;
  for (const { index } of code.matchAll(BRACE)) {
    if (++tries > MAX_TRIES) return -1;
    if (isObject(code.slice(index)) && parsed(code.slice(0, index))) return index;
  }
  return -1;
}

/** Edits that make of `import` and `export` what evaluation knows. */
function moduleEdits(tree, code) {
  const edits = [];
  for (const node of tree.body) edits.push(...statementEdits(node, code));
  walk.simple(tree, {
    ImportExpression(node) {
      edits.push([node.start, node.start + 'import'.length, IMPORT]);
    },
    MetaProperty(node) {
      if (node.meta.name === 'import') edits.push([node.start, node.end, IMPORT_META]);
    },
  });
  return edits;
}

function statementEdits(node, code) {
  switch (node.type) {
    case 'ImportDeclaration':
      return [[node.start, node.end, withLinesOf(code.slice(node.start, node.end), importText(node, code))]];
    case 'ExportNamedDeclaration':
      return [blank(code, node.start, node.declaration ? node.declaration.start : node.end)];
    case 'ExportDefaultDeclaration':
      return [blank(code, node.start, node.declaration.start)];
    default:
      return [];
  }
}

function importText(node, code) {
  const names = node.specifiers.filter((one) => one.type === 'ImportSpecifier').map((one) => [importedName(one), one.local.name]);
  const whole = node.specifiers.find((one) => one.type === 'ImportNamespaceSpecifier');
  const main = node.specifiers.find((one) => one.type === 'ImportDefaultSpecifier');
  if (main) names.unshift(['default', main.local.name]);
  const wanted = JSON.stringify(names.map(([name]) => name));
  const call = `await ${IMPORT}(${node.source.raw}, ${attributes(node, code)}, ${wanted})`;
  const pattern = `{ ${names.map(([name, local]) => `${JSON.stringify(name)}: ${local}`).join(', ')} }`;
  if (!node.specifiers.length) return `${call};`;
  if (!whole) return `const ${pattern} = ${call};`;
  return `const ${whole.local.name} = ${call}${names.length ? `, ${pattern} = ${whole.local.name}` : ''};`;
}

function importedName(specifier) {
  return specifier.imported.name ?? specifier.imported.value;
}

function attributes(node, code) {
  if (!node.attributes?.length) return 'undefined';
  return `{ with: { ${node.attributes.map((one) => code.slice(one.start, one.end)).join(', ')} } }`;
}

function withLinesOf(original, text) {
  return text + '\n'.repeat(original.split('\n').length - 1);
}

function blank(code, start, end) {
  return [start, end, code.slice(start, end).replace(/[^\n]/g, ' ')];
}

function edited(code, edits) {
  for (const [start, end, text] of edits.toSorted((a, b) => b[0] - a[0])) {
    code = code.slice(0, start) + text + code.slice(end);
  }
  return code;
}

function hintFor(name) {
  return `An earlier cell, or this one, declared \`${name}\` with another kind of declaration. Assign to it, or choose another name.`;
}

/** The inspector says line 1 of every name that is declared twice. */
function placeOf(name, code) {
  const quoted = name.replace(/\$/g, '\\$&');
  const all = [...code.matchAll(new RegExp(`\\b(?:let|const|var|class|function\\*?|import)\\b[^;\\n]*?(?<![\\w$])(${quoted})(?![\\w$])`, 'dg'))];
  const at = all.at(-1)?.indices[1][0] ?? 0;
  const before = code.slice(0, at).split('\n');
  return { line: before.length, column: before.at(-1).length + 1 };
}

/** Where the parser stumbles, if the inspector only says that it does not know `import`. */
function placeByParser(code) {
  try {
    acorn.parse(code, PARSE);
    return {};
  } catch (error) {
    if (!error.loc) return {};
    const syntaxError = new SyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''));
    return { syntaxError, line: error.loc.line, column: error.loc.column + 1 };
  }
}

module.exports = { Source, Boxed, keep, IMPORT, IMPORT_META, KEEP };
