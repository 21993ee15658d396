"""What a cell's code is turned into before it is evaluated: line by line the same, and untouched where nothing is to do."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import playwright
import pytest

import cellwright_kernel.javascript

NODE = Path(playwright.__file__).parent / "driver" / "node"
FOLDER = Path(cellwright_kernel.javascript.__file__).parent

SCRIPT = """
const { Source } = require(process.argv[1] + '/source.cjs')
const codes = JSON.parse(require('node:fs').readFileSync(0))
const last = '\\n//# sourceURL=<cell-7>'
const bare = (text) => {
  if (text === null) return null
  if (!text.endsWith(last)) throw new Error(text)
  return text.slice(0, -last.length)
}
const all = codes.map((code) => {
  const source = new Source(code, 7)
  return [bare(source.first()), bare(source.next({ syntaxError: new SyntaxError('as if') }))]
})
process.stdout.write(JSON.stringify(all))
"""

SAME = (
    "",
    "'use strict'",
    "// import nothing",
    "const text = 'import x from \"y\"'",
    "function f() {\n  return { a: 1 }\n}",
    "if (x) { y }",
    "for (const a of b) {\n  c(a)\n}",
    "{ let inner = 1; inner }",
    "class A {\n  import() {}\n}",
    "let broken = {",
    "1)), f((2",  # in brackets it would compile
    "'((')), f((2",
)

CHANGED = {
    "{ a: 1 }": "({ a: 1 })",
    "{a: 1, b: 2}  ": "({a: 1, b: 2})  ",
    "{}": "({})",
    "f()\n{ a }": "f()\n;({ a })",
    "const a = 1\n{\n  a,\n  b: [a],\n}\n": "const a = 1\n;({\n  a,\n  b: [a],\n})\n",
    "import 'fs'": "await esmod$('fs', undefined, []);",
    "import fs from 'fs'": 'const { "default": fs } = await esmod$(\'fs\', undefined, ["default"]);',
    "import * as all from 'fs'": "const all = await esmod$('fs', undefined, []);",
    "import {\n  a as b,\n} from 'm'\nb": 'const { "a": b } = await esmod$(\'m\', undefined, ["a"]);\n\n\n;cell_value$((b))',
    "import d, * as ns from 'm'": 'const ns = await esmod$(\'m\', undefined, ["default"]), { "default": d } = ns;',
    "import j from './a.json' with { type: 'json' }": (
        "const { \"default\": j } = await esmod$('./a.json', { with: { type: 'json' } }, [\"default\"]);"
    ),
    "await import('x')": "cell_value$((await esmod$('x')))",
    "import('x')": "cell_value$((esmod$('x')))",
    "import.meta": "cell_value$((import_meta))",
    "1 + 1": "cell_value$((1 + 1))",
    "a()\nb ; // so": "a()\n;cell_value$((b )); // so",
    "x => x + 1": "cell_value$((x => x + 1))",
    " await f(a)[0] ": "cell_value$(( await f(a)[0] ))",
    "letter + iffy(constant)": "cell_value$((letter + iffy(constant)))",
    "important = { a: 1 }": "cell_value$((important = { a: 1 }))",
    "f(() => import('x'), import.meta.url)": "cell_value$((f(() => esmod$('x'), import_meta.url)))",
    "export const a = 1": "       const a = 1",
    "export default 5": "               5",
    "const a = 1\nexport { a }": "const a = 1\n            ",
}

IN_VAIN = ("outer: 1", "1 +", "a b", "x as number")
"""In brackets they do not compile, so they are tried as they are."""


@cache
def turned() -> dict[str, list[str | None]]:
    """All at once: one Node takes 80 ms, of which the parser is most."""
    codes = [*SAME, *CHANGED, *IN_VAIN]
    command = [str(NODE), "--expose-internals", "--disable-warning=ExperimentalWarning", "-e", SCRIPT, str(FOLDER)]
    done = subprocess.run(command, input=json.dumps(codes), capture_output=True, text=True, check=True, timeout=30)
    return dict(zip(codes, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("code", SAME)
def test_it_is_left_as_it_is(code: str) -> None:
    assert turned()[code][0] == code


@pytest.mark.parametrize("code", CHANGED)
def test_it_becomes_what_evaluation_knows(code: str) -> None:
    assert turned()[code][0] == CHANGED[code]


@pytest.mark.parametrize("code", CHANGED)
def test_every_line_stays_where_it_was(code: str) -> None:
    assert turned()[code][0].count("\n") == code.count("\n")


@pytest.mark.parametrize("code", IN_VAIN)
def test_what_is_no_expression_after_all_is_tried_as_it_is(code: str) -> None:
    assert turned()[code] == [f"cell_value$(({code}))", code]
