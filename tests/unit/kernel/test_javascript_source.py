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
const first = codes.map((code) => {
  const text = new Source(code, 7).first()
  if (!text.endsWith(last)) throw new Error(text)
  return text.slice(0, -last.length)
})
process.stdout.write(JSON.stringify(first))
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
    "important = { a: 1 }": "cell_value$((important = { a: 1 }))",
    "f(() => import('x'), import.meta.url)": "cell_value$((f(() => esmod$('x'), import_meta.url)))",
    "export const a = 1": "       const a = 1",
    "export default 5": "               5",
    "const a = 1\nexport { a }": "const a = 1\n            ",
}


@cache
def turned() -> dict[str, str]:
    """All at once: one Node takes 80 ms, of which the parser is most."""
    codes = [*SAME, *CHANGED]
    command = [str(NODE), "--expose-internals", "--disable-warning=ExperimentalWarning", "-e", SCRIPT, str(FOLDER)]
    done = subprocess.run(command, input=json.dumps(codes), capture_output=True, text=True, check=True, timeout=30)
    return dict(zip(codes, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("code", SAME)
def test_it_is_left_as_it_is(code: str) -> None:
    assert turned()[code] == code


@pytest.mark.parametrize("code", CHANGED)
def test_it_becomes_what_evaluation_knows(code: str) -> None:
    assert turned()[code] == CHANGED[code]


@pytest.mark.parametrize("code", CHANGED)
def test_every_line_stays_where_it_was(code: str) -> None:
    assert turned()[code].count("\n") == code.count("\n")
