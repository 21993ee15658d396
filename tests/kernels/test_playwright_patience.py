"""The waits of Playwright's that are bounded: they stand in the installed one, word by word, and are replaced where it is loaded."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import playwright

import cellwright_kernel.javascript
from cellwright_kernel.python.browser import PAGES_S

DRIVER = Path(playwright.__file__).parent / "driver"
PATIENT = Path(cellwright_kernel.javascript.__file__).with_name("patient.cjs")

LOOK = """
const { PAGES_MS, WAITS } = require(process.argv[1])
const source = require('node:fs').readFileSync(process.argv[2], 'utf8')
process.stdout.write(JSON.stringify({ ms: PAGES_MS, found: WAITS.map(([wait]) => source.split(wait).length - 1) }))
"""
LOAD = """
const { registerHooks } = require('node:module')
let bundle = ''
registerHooks({ load(url, context, next) {
  const loaded = next(url, context)
  if (url.endsWith('/coreBundle.js')) bundle = String(loaded.source)
  return loaded
} })
require(process.argv[1])
const { WAITS } = require(process.argv[2])
process.stdout.write(JSON.stringify(WAITS.map(([wait]) => [bundle.split(wait).length, bundle.split(`Promise.race([${wait.slice(6)}`).length])))
"""

AGAIN = """
const { registerHooks } = require('node:module')
const { WAITS, forgetPatience, havePatience } = require(process.argv[1])
const found = []
for (let times = 0; times < 2; times++) {
  havePatience()
  const watching = registerHooks({ load(url, context, next) {
    const loaded = next(url, context)
    if (url.endsWith('/coreBundle.js')) found.push(WAITS.map(([wait]) => String(loaded.source).split(`Promise.race([${wait.slice(6)}`).length))
    return loaded
  } })
  require(process.argv[2])
  watching.deregister()
  const paths = Object.keys(require.cache)
  for (const path of paths) delete require.cache[path]
  forgetPatience(paths)
}
process.stdout.write(JSON.stringify(found))
"""


def said(*arguments: str) -> Any:
    done = subprocess.run([DRIVER / "node", *arguments], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_the_installed_playwright_waits_at_these_places_once_each() -> None:
    """Where this fails after an update of Playwright, look there how it waits for pages now."""
    bundle = DRIVER / "package" / "lib" / "coreBundle.js"
    assert said("-e", LOOK, str(PATIENT), str(bundle)) == {"ms": round(PAGES_S * 1000), "found": [1, 1]}


def test_they_are_bounded_where_playwright_is_loaded() -> None:
    package = DRIVER / "package"
    assert said("--require", str(PATIENT), "-e", LOAD, str(package), str(PATIENT)) == [[1, 2], [1, 2]]


def test_they_are_bounded_where_playwright_is_loaded_anew_too() -> None:
    assert said("-e", AGAIN, str(PATIENT), str(DRIVER / "package")) == [[2, 2], [2, 2]]
