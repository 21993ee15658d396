"""Typing 200 characters into a field of a page: ours, and stock PyAutoGUI's, in turns in one sandbox.

Flows in: nothing. Flows out: a row. Decided here: that a text is typed once the page has all of it, and right: a value
that is not the text is an error, not a time. Stock is PyAutoGUI as it comes, in a stock ipykernel: it asks the X server
for each key, and pauses 0.1 s after the call. The text has no `<`, for which it types `>` here.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from statistics import median
from typing import Final

import httpx2

from cellwright.bench.rows import Row
from cellwright.bench.service import answered, service
from cellwright.errors import EnvironmentMissing

TEXT: Final = (
    "The quick brown Fox jumps over 13 lazy dogs; then, at 7:45, it naps (briefly) under Mr. O'Neill's #2 porch. "
    "Costs: $4.50 + 20% = $5.40! Is that right? Yes: see notes [page 9] & 'appendix'. End."
).ljust(200, "x")
TURNS: Final = 5

_START: Final = """
import json, os, subprocess, sys
from pathlib import Path
_text = {text}
await page.set_content("<textarea id=field autofocus rows=8 cols=80></textarea>")
screen.settle()
_box = await page.locator("#field").bounding_box()
_at = await page.evaluate("[screenX, screenY + outerHeight - innerHeight]")
pyautogui.click(_at[0] + _box["x"] + 40, _at[1] + _box["y"] + 20)
Path("stock.py").write_text({program})
_process = subprocess.Popen(
    [sys.executable, "-P", "stock.py", {code}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    start_new_session=True)
def _ours():
    pyautogui.write(_text)
def _stock():
    _process.stdin.write(b"1\\n")
    _process.stdout.readline()
async def _typed(write):
    await page.evaluate("field.value = '', field.focus()")
    began = time.perf_counter()
    write()
    await page.wait_for_function("length => field.value.length >= length", arg=len(_text), timeout=10_000)
    took = time.perf_counter() - began
    return took * 1000, await page.evaluate("field.value")
await _typed(_stock)  # it imports pyautogui first
log("ready")
"""
_STOCK: Final = "import pyautogui; pyautogui.write({text!r})"


def measure() -> list[Row]:
    """Measure; takes about 10 s.

    Raises:
        EnvironmentMissing: The service did not come up, or a text arrived wrongly.
    """
    session_id = uuid.uuid4().hex
    with service() as client:
        program = Path(__file__).with_name("stock.py").read_text(encoding="utf-8")
        code = _START.format(text=repr(TEXT), program=repr(program), code=repr(_STOCK.format(text=TEXT)))
        _, said = answered(client, session_id, "python", code)
        if not said.endswith("ready"):
            raise EnvironmentMissing(f"Nothing can be typed here: {said[:500]} Run `cellwright doctor`.")
        turns = [(_typed(client, session_id, "_ours"), _typed(client, session_id, "_stock")) for _ in range(TURNS)]
    ours, stock = (round(median(took), 1) for took in zip(*turns, strict=True))
    what = f"{len(TEXT)} characters typed into a page"
    return [Row(what=what, ours=ours, baseline=stock, unit="ms", stock="stock pyautogui, in a stock ipykernel")]


def _typed(client: httpx2.Client, session_id: str, who: str) -> float:
    _, said = answered(client, session_id, "python", f"log(json.dumps(await _typed({who})))")
    try:
        took, value = json.loads(said)
    except ValueError as error:
        raise EnvironmentMissing(f"{who[1:]}: the text did not arrive whole: {said[:500]}") from error
    if value != TEXT:
        raise EnvironmentMissing(f"{who[1:]}: the text arrived as {value!r}. Nothing was measured.")
    return float(took)
