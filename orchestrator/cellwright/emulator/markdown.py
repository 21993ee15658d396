"""A script written like a conversation.

Flows in: a Markdown-like text. Flows out: a `Script`. Decided here: the format.

    <!-- a comment -->
    I open the form first.

    ```python
    await page.goto("http://127.0.0.1:8000/")
    display(pyautogui.screenshot())
    ```
    ---
    expect: image
    expect: Expense report

    The form is filled and sent.

Turns are separated by a line `---`. In a turn:

- a fenced block whose first word is `python` (or `py`) is a call of exec_py, `javascript` (or `js`) of exec_js; two
  blocks are two calls; a longer fence may hold shorter ones. `call NAME` is a call of NAME whose arguments are the block
  as it stands, well formed or not;
- the other text is the model's message: commentary when the turn has a call, the final answer when it has none;
- lines at the turn's beginning that start with one of these words say more about it:

      expect: TEXT        the text of the last answers holds TEXT, else the request is refused with status 400
      expect-not: TEXT    it doesn't
      expect: image       a picture is among them
      phase: WORD         of the message: commentary, final_answer, or none
      refusal: TEXT       the model refuses with these words
      status: WORD [WHY]  the response ends so: `incomplete max_output_tokens`, `failed server_error`
      http: STATUS [N]    the first N requests for this turn (default 1) are refused with this HTTP status
      wait: SECONDS       so long until the response begins
      break               the stream breaks off in the middle of this turn
      fault: NAME [xN]    this goes wrong before the turn, N times; may be repeated
      wrap-up             this turn answers the request that allows no more calls, whenever that comes
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Final

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.script import Script, ScriptedCall, ScriptedTurn
from cellwright.errors import UsageError
from cellwright.model.base import Phase

_DIRECTIVE: Final = re.compile(
    r"(expect|expect-not|phase|refusal|status|http|wait|fault):\s*(.*?)\s*|(break|wrap-up)\s*"
)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})\s*(\S+)?\s*(.*?)\s*")
_TOOLS: Final = {"python": "exec_py", "py": "exec_py", "javascript": "exec_js", "js": "exec_js"}


def parse(text: str, name: str) -> Script:
    """Read a script.

    Raises:
        UsageError: It is not written as it must be; says where.
    """
    parts = _parts(_without_comments(text))
    return Script.of((_Reader(name, number, lines).turn() for number, lines in enumerate(parts, 1)), name)


def _without_comments(text: str) -> Iterator[str]:
    """Yield the lines that are no comment; one that starts with `<!--` in a fenced block is code."""
    fence, is_comment = "", False
    for line in text.splitlines():
        is_comment = is_comment or (not fence and line.startswith("<!--"))
        if is_comment:
            is_comment = "-->" not in line
            continue
        fence = _fence_after(fence, line)
        yield line


def _parts(lines: Iterable[str]) -> list[list[str]]:
    parts, fence = [list[str]()], ""
    for line in lines:
        fence = _fence_after(fence, line)
        if not fence and line.rstrip() == "---":
            parts.append([])
        else:
            parts[-1].append(line)
    return [part for part in parts if any(line.strip() for line in part)]


def _fence_after(fence: str, line: str) -> str:
    """Return the fence that is open after this line; empty: none. The closing one is as long, of the same kind, bare."""
    if fence:
        bare = line.strip()
        return "" if bare and set(bare) == {fence[0]} and len(bare) >= len(fence) else fence
    match = _FENCE.fullmatch(line)
    return match[1] if match else ""


class _Reader:
    """Reads one turn."""

    def __init__(self, name: str, number: int, lines: list[str]) -> None:
        self._where = f"{name}, turn {number}"
        self._lines = lines
        self._said: dict[str, list[str]] = {}

    def turn(self) -> ScriptedTurn:
        body = self._directives()
        text, calls = self._body(body)
        said = self._said
        status, _, reason = self._one("status", "completed").partition(" ")
        http, _, times = self._one("http", "").partition(" ")
        return ScriptedTurn(
            text=text,
            calls=calls,
            phase=self._phase(bool(calls)),
            refusal=self._one("refusal", "") or None,
            status=status,
            reason=reason or None,
            expects=tuple(word for word in said.get("expect", []) if word != "image"),
            expects_not=tuple(said.get("expect-not", [])),
            expects_image="image" in said.get("expect", []),
            http_status=int(self._number(http)) if http else None,
            http_times=int(self._number(times or "1")),
            wait_s=self._number(self._one("wait", "0")),
            breaks="break" in said,
            wrap_up="wrap-up" in said,
            faults=tuple(self._fault(words) for words in said.get("fault", [])),
        )

    def _directives(self) -> list[str]:
        """Take the lines that say something about the turn; return the rest."""
        for index, line in enumerate(self._lines):
            match = _DIRECTIVE.fullmatch(line)
            if match is None and line.strip():
                return self._lines[index:]
            if match is not None:
                self._said.setdefault(match[1] or match[3], []).append(match[2] or "")
        return []

    def _body(self, lines: list[str]) -> tuple[str, tuple[ScriptedCall, ...]]:
        text, calls, block = list[str](), list[ScriptedCall](), list[str]()
        fence, words = "", ("", "")
        for line in lines:
            before, fence = fence, _fence_after(fence, line)
            if fence and not before:
                words, block = self._opened(line), []
            elif before and not fence:
                calls.append(self._call(words, "\n".join(block)))
            elif fence:
                block.append(line)
            else:
                text.append(line)
        if fence:
            raise UsageError(f"{self._where}: the block that starts with {fence} is not closed. Nothing was started.")
        return "\n".join(text).strip(), tuple(calls)

    def _opened(self, line: str) -> tuple[str, str]:
        match = _FENCE.fullmatch(line)
        word, rest = (match[2] or "", match[3]) if match else ("", "")
        if word not in _TOOLS and not (word == "call" and rest):
            raise UsageError(
                f"{self._where}: a block must say python, javascript or `call NAME` (found: {word!r}). Nothing was started."
            )
        return word, rest

    def _call(self, words: tuple[str, str], block: str) -> ScriptedCall:
        word, rest = words
        if word == "call":
            return ScriptedCall(rest, block)
        return ScriptedCall(_TOOLS[word], json.dumps({"code": block}, ensure_ascii=False))

    def _phase(self, calls: bool) -> Phase | None:
        match self._one("phase", "commentary" if calls else "final_answer"):
            case "commentary":
                return "commentary"
            case "final_answer":
                return "final_answer"
            case "none":
                return None
            case word:
                raise UsageError(f"{self._where}: there is no phase {word!r}. Nothing was started.")

    def _fault(self, words: str) -> PlannedFault:
        try:
            return PlannedFault.here(words, None)
        except UsageError as error:
            raise UsageError(f"{self._where}: {error}") from error

    def _one(self, word: str, default: str) -> str:
        return self._said.get(word, [default])[-1]

    def _number(self, word: str) -> float:
        try:
            number = float(word)
        except ValueError as error:
            raise UsageError(f"{self._where}: {word!r} is not a number. Nothing was started.") from error
        if not 0 <= number < math.inf:
            raise UsageError(f"{self._where}: {word!r} is no number from 0 on. Nothing was started.")
        return number
