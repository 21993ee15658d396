"""Whether a run is done, when the model says that it is: its result has the shape that was asked for, and what verifies it succeeds.

Flows in: the model's last words, what the user wants to hold. Flows out: nothing, or what does not hold, in words that go back to
the model; and the result. Decided here: where in the last words the result stands; that the cheapest check comes first, and the
next one only when it holds; what of a command's output the model is shown; that a check is given up when a person stops the run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Never

from pydantic import JsonValue

from cellwright.answer import answer, said, without_middle
from cellwright.conversation import RESULT
from cellwright.endings import Finished, NotVerified
from cellwright.outside import run_command
from cellwright.place import Recording
from cellwright.record.records import Note
from cellwright.steering import Steering
from cellwright.terms import Checks
from cellwright.validity import not_valid_in_time
from cellwright_kernel.wire import Cell, Language, Text

MAX_SENT_BACK: Final = 3
"""So many final answers go back to the model; the next one that does not hold ends the run."""
DEADLINE_S: Final = 120.0
"""Seconds that a command or a cell which verifies may take."""
_SHOWN_CHARS: Final = 4_000
_FENCED: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_GO_ON: Final = "Go on, and finish again when it holds."

Executing = Callable[[str, Language], Coroutine[Any, Any, Cell]]
"""Executes a cell in the run's session."""


class Checking:
    """What is checked of one run's final answers.

    Args:
        checks: What must hold.
        folder: The run's; a command is executed there.
        execute: Executes a cell.
        steering: By which a person stops the run, and the check at hand with it.
        journal: Where the result is kept, and what knows the values of secrets.
        sent_back: How many answers went back to the model already.
    """

    def __init__(
        self,
        checks: Checks,
        *,
        folder: Path,
        execute: Executing,
        steering: Steering,
        journal: Recording,
        sent_back: int = 0,
    ) -> None:
        self.result: JsonValue = None
        """The last result that had the right shape; absent when there is none."""
        self._checks = checks
        self._folder = folder
        self._execute = execute
        self._steering = steering
        self._journal = journal
        self._sent_back = sent_back

    async def finished(self, words: str) -> str:
        """End the run if all that must hold does; else return what does not, as words to the model, a few times.

        Raises:
            Finished: All holds.
            NotVerified: It does not, and the model was told often enough.
            Stopped: A person stopped the run before that was known.
        """
        complaint = await self.complaint(words)
        if complaint is None:
            if self._checks.result_schema is not None:
                self._journal.append(Note(topic=RESULT, text=json.dumps(self.result)))
            raise Finished(summary=words)
        if self._sent_back >= MAX_SENT_BACK:
            raise NotVerified(
                f"It was told {MAX_SENT_BACK} times what does not hold, and the last time was: {complaint}",
                summary=words,
            )
        self._sent_back += 1
        return complaint

    async def complaint(self, words: str) -> str | None:
        """Return what does not hold, as words to the model; None when all does."""
        if self._checks.result_schema is not None and (wrong := await self._shape(words)) is not None:
            return wrong
        if (
            self._checks.verify is not None
            and (wrong := await self._by_command(self._checks.verify, words)) is not None
        ):
            return wrong
        if self._checks.verify_cell is not None:
            return await self._by_cell(self._checks.verify_cell)
        return None

    async def _shape(self, words: str) -> str | None:
        try:
            result = _json_in(words)
        except ValueError as error:
            return (
                f"Your final answer is not the JSON that was asked for: {error}. Finish with one JSON value and nothing else, "
                "as the schema in your instructions says."
            )
        wrong = await not_valid_in_time(result, self._checks.result_schema)
        if wrong is not None:
            return f"Your final answer does not satisfy the schema: {wrong} Finish with a whole answer that does."
        self.result = result
        return None

    async def _by_command(self, command: str, words: str) -> str | None:
        executed = run_command(command, self._folder, words, deadline_s=DEADLINE_S)
        ended = await self._steering.unless_stopped(executed)
        if ended.status == 0:
            return None
        how = f"did not end within {DEADLINE_S:g} s" if ended.status is None else f"ended with status {ended.status}"
        if self._journal.would_hide(ended.text):
            shown = "What it printed holds the value of a secret, and is left out."
        else:
            shown = f"It printed:\n{_cut(ended.text)}" if ended.text.strip() else "It printed nothing."
        return f"You said that the task is done, but the user's check of it {how}. {shown}\n\n{_GO_ON}"

    async def _by_cell(self, code: str) -> str | None:
        cell = await self._steering.unless_stopped(self._execute(code, self._checks.verify_language))
        if cell.status == "ok" and not _says_false(cell):
            return None
        how = "gave False" if cell.status == "ok" else f"ended {cell.status}"
        shown = "\n".join(item["text"] for item in answer(cell) if item["type"] == "input_text")
        return (
            f"You said that the task is done, but the user's check of it, cell {cell.number} in this session, {how}. It "
            f"says:\n{_cut(shown)}\n\n{_GO_ON}"
        )


def _says_false(cell: Cell) -> bool:
    results = [output.text for output in cell.outputs if isinstance(output, Text) and output.source == "result"]
    return bool(results) and results[-1].strip() in ("False", "false")


def _json_in(words: str) -> JsonValue:
    """Return the value that the words are, or that stands in the last fence of them; raises ValueError."""
    whole = words.strip()
    if not whole.startswith(("{", "[", '"')) and (fenced := _FENCED.findall(whole)):
        whole = fenced[-1]
    try:
        value: JsonValue = json.loads(whole, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return value


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _no_number(word)


def _no_number(word: str) -> Never:
    raise ValueError(f"{word[:40]} is no number of JSON")


def _cut(text: str) -> str:
    return without_middle(said(text.strip())["text"], _SHOWN_CHARS)
