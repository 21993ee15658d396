"""Whether a run gets anywhere: the same code again and again, a screen that nothing changes, the same error every time.

Flows in: each cell when it has ended. Flows out: what the model is to be told, once, then more strongly; and in the end why the run is
stopped. Decided here: what is the same, and what is progress. Cells that bring anything new are never held against a run: an output that was not there lately,
or a screen that was not. Addresses of objects in an output are not new. The screen that a cell left is known when the next one begins.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from cellwright.errors import UsageError
from cellwright_kernel.wire import Cell, Image, Text

LONGEST_CYCLE: Final = 3
"""Cells that are repeated together, at most."""

_ACTS: Final = re.compile(
    r"\bpyautogui\.(?:click|\w+Click|mouse\w+|move\w*|drag\w*|v?h?scroll|write|typewrite|press|hotkey|key\w+)\s*\("
    r"|\bsecrets\.type\s*\("
    r"|\.(?:click|dblclick|tap|fill|type|press|press_sequentially|pressSequentially|check|uncheck|select_option|selectOption"
    r"|hover|drag_to|dragTo|drag_and_drop|dragAndDrop|set_input_files|setInputFiles|set_checked|setChecked|insert_text|insertText"
    r"|goto|reload|go_back|goBack|go_forward|goForward|wheel)\s*\("
)
"""What uses pointer or keyboard, or leads a page elsewhere."""
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")

_NUDGE: Final = (
    "Repeating it will not help. Look at what is really there (the whole screen, the page's text, the error itself), say why it has no effect, and "
    "try another way. If you wait for something, wait for it within one cell that may take long."
)
_PUSH: Final = (
    "It still gets nowhere, and the task will be stopped soon. Do something that you have not done yet; or, if it cannot be done, make no "
    "further call and finish: say what is done, what stands in the way, and what you tried."
)


@dataclass(frozen=True)
class Patience:
    """How often the same may happen, in a row.

    Counted are repetitions of one cell, or of up to three in turn, with the same result; cells that used pointer, keyboard or page and left
    the screen as it was; and cells that ended with the same error.
    """

    nudge_after: int = 3
    """So often, and the model is told."""
    push_after: int = 5
    """So often, and it is told to do something else or to give up."""
    stop_after: int = 8
    """So often, and the run ends as `stuck`; never before it was told twice."""

    def __post_init__(self) -> None:
        if not 2 <= self.nudge_after < self.push_after < self.stop_after:
            raise UsageError(
                f"A patience of {self.nudge_after},{self.push_after},{self.stop_after} does not rise from at least 2. Nothing was "
                "started. Give one number, or three like 3,5,8."
            )

    @classmethod
    def of(cls, nudge_after: int) -> Patience:
        """Return that of somebody who says only when the model is told first."""
        usual = cls()
        return cls(
            nudge_after,
            nudge_after + usual.push_after - usual.nudge_after,
            nudge_after + usual.stop_after - usual.nudge_after,
        )


@dataclass(frozen=True)
class Verdict:
    """That a run gets nowhere."""

    words: str
    """What the model is told; or, where it is stopped, why."""
    is_end: bool
    """True when it is stopped."""


@dataclass(frozen=True)
class _Seen:
    """What of a cell is compared."""

    key: tuple[str, str]
    """Its language and code."""
    shown: str
    """Hash of its outputs."""
    acts: bool
    error: str | None
    """The last line of the error that it ended with; absent when with none."""
    is_new_screen: bool
    """Whether it began on a screen that had not been there lately; the first that is known is none."""
    has_screen: bool
    """Whether the screen that it began on is known."""
    is_news: bool
    """Whether it showed what had not been shown lately, but for how it failed."""


class Watch:
    """Looks at the cells of one run."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        length = LONGEST_CYCLE * (patience.stop_after + 1)
        self._cells = deque[_Seen](maxlen=length)
        self._screens = deque[str](maxlen=length)
        self._shown = deque[str](maxlen=8 * length)
        self._told = 0
        """How often in this standstill."""
        self._is_seen = True
        """Whether there was a verdict since the last cell."""

    def saw(self, cell: Cell) -> None:
        """Take in a cell that has ended."""
        is_new_screen = bool(self._screens) and cell.screen_before not in (None, *self._screens)
        if cell.screen_before is not None:
            self._screens.append(cell.screen_before)
        parts = [*_parts(cell)]
        shown = [part for part, is_failure in parts if not is_failure]
        is_news = any(part not in self._shown for part in shown)
        self._shown.extend(shown)
        self._is_seen = False
        self._cells.append(
            _Seen(
                key=(cell.language, cell.code.strip()),
                shown=_hash("".join(part for part, _ in parts)),
                acts=cell.status != "denied" and _ACTS.search(cell.code) is not None,
                error=_last_line(cell),
                is_new_screen=is_new_screen,
                has_screen=cell.screen_before is not None,
                is_news=is_news,
            )
        )

    def verdict(self) -> Verdict | None:
        """Return what is to be said before the model is asked again; None: nothing. One step at a time."""
        if self._is_seen:
            return None
        self._is_seen = True
        count, what = max((self._repeated(), self._unchanged(), self._failing()), key=lambda one: one[0])
        patience = self._patience
        level = sum(count >= most for most in (patience.nudge_after, patience.push_after, patience.stop_after))
        if level <= self._told:
            self._told = min(self._told, level)
            return None
        self._told += 1
        match self._told:
            case 1:
                return Verdict(f"{what} {_NUDGE}", is_end=False)
            case 2:
                return Verdict(f"{what} {_PUSH}", is_end=False)
            case _:
                return Verdict(f"{what} The model was told so twice, and went on.", is_end=True)

    def _repeated(self) -> tuple[int, str]:
        cells = list(self._cells)
        rounds, period = max((_rounds(cells, period), -period) for period in range(1, LONGEST_CYCLE + 1))
        whose = "The same cell was" if period == -1 else f"The same {-period} cells were"
        return rounds, f"{whose} executed {rounds} times in a row, with the same result each time."

    def _unchanged(self) -> tuple[int, str]:
        """Count cells that acted; what the last one did to the screen is not known yet, so it is not among them."""
        count = 0
        follower: _Seen | None = None
        for seen in reversed(self._cells):
            if follower is not None and (
                follower.is_new_screen or follower.has_screen is not seen.has_screen or seen.is_news
            ):
                break
            count += follower is not None and seen.acts
            follower = seen
        return count, f"The screen is as it was before the last {count} cells that used pointer, keyboard or page."

    def _failing(self) -> tuple[int, str]:
        count = 0
        last: str | None = None
        for seen in reversed(self._cells):
            if seen.error is None:
                if seen.is_news or seen.is_new_screen:
                    break
                continue
            if last is not None and seen.error != last:
                break
            last, count = seen.error, count + 1
            if seen.is_new_screen or seen.is_news:
                break
        return count, f"The last {count} cells that failed ended with the same error."


def _rounds(cells: list[_Seen], period: int) -> int:
    """Return how many times in a row the last so many cells were executed, with nothing new after the first time."""
    same = 0
    for place in range(len(cells) - 1, period - 1, -1):
        one, before = cells[place], cells[place - period]
        if one.key != before.key or one.shown != before.shown or one.is_new_screen:
            break
        same += 1
    return same // period + 1 if cells else 0


def _parts(cell: Cell) -> Iterator[tuple[str, bool]]:
    """Yield the hash of each output, and whether it says how the cell failed."""
    for output in cell.outputs:
        match output:
            case Text():
                yield _hash(_ADDRESS.sub("0x", output.text)), output.source in ("error", "notice")
            case Image():
                yield output.sha256, False
            case _:
                assert_never(output)


def _last_line(cell: Cell) -> str | None:
    if cell.status == "ok":
        return None
    source = "notice" if cell.status == "denied" else "error"  # why a person denied it is what there is to learn from
    texts = [output.text for output in cell.outputs if isinstance(output, Text) and output.source == source]
    lines = texts[-1].strip().splitlines() if texts else []
    return _ADDRESS.sub("0x", lines[-1]) if lines else cell.status


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
