"""Cells that take longer than a client of the guide waits.

Flows in: code, and the moment when its request arrived. Flows out: what the model is told. Decided here: code that asks for no more
time is interrupted at 24 s, so that clients which know nothing of all this get what the guide says; code that asks for more is answered at
24 s with what it has shown, and goes on; from then on a call of `# wait` alone waits for it and gives what is new, `# interrupt` ends it, and any other code is
not executed while it runs. When it has ended, the rest of what it showed stands before the next call's own output. A cell whose waiter
hung up is one that was left running, and what he was not sent is new to the next one who asks.

The words are comments, so that they harm nothing where a service knows them not. Where no cell runs, that is said.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from cellwright.answer import InputItem, answer_after, said
from cellwright.deadlines import COMMENT, asked_s, how_to_ask
from cellwright.errors import SessionBusy
from cellwright.executor import LADDER_S
from cellwright.ongoing import Ongoing, WaitsFor, rest_of
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Language, Output, Text

INTERRUPT_S: Final = 24.0
"""Seconds after arrival at which a cell is interrupted, or answered as still running."""
HELD_S: Final = 26.8
"""The same, where a person may be waited for: a cell that is interrupted at its deadline has ended by then."""
_WORD: Final = re.compile(r"\s*(?:#|//)[ \t]*(wait|interrupt)\s*", re.ASCII)


@dataclass(frozen=True)
class Reply:
    """What a call is answered with."""

    items: list[InputItem]
    of: tuple[Ongoing, Cell] | None = None
    """The cell that it tells of, and as what; None: of none."""

    def was_sent(self) -> None:
        """Say that the waiter was told."""
        if self.of is not None:
            ongoing, cell = self.of
            ongoing.told(cell)


async def respond(session: Session, code: str, language: Language, arrived: float, held: ExitStack) -> Reply:
    """Answer a call: execute its code, or go on with the cell that an earlier one left running.

    Args:
        session: Where.
        code: It may ask for more time, or be one of the words.
        language: Which kernel.
        arrived: Moment on the monotonic clock.
        held: Holds the cell for this waiter, until he was told.

    Raises:
        SessionBusy: Somebody else waits for the cell that is running.
    """
    word = _WORD.fullmatch(code)
    if (
        (left := session.left) is not None
        and left.was_held
        and (left.cell.code, left.cell.language) == (code, language)
    ):
        return await _go_on(left, "wait", arrived, held)  # the same call, made again as its answer says
    if left is not None and not (word is None and left.has_ended):
        return await _go_on(left, word[1] if word else None, arrived, held)
    if word is None:
        return await begin(session, code, language, arrived, held)
    if (number := session.executing) is None:
        return Reply([said("No cell is running. Nothing was executed.")])
    if word[1] == "interrupt":
        await session.interrupt()
        return Reply([said(f"Cell {number} was told to end. Whoever waits for it is answered with what it has shown.")])
    raise SessionBusy(f"Somebody waits for cell {number} already. It goes on undisturbed. Nothing was executed.")


async def begin(session: Session, code: str, language: Language, arrived: float, held: ExitStack) -> Reply:
    """Execute code that nothing stands in the way of; arguments as with `respond`. It is begun before the first wait."""
    deadline_s = asked_s(code, language) or min(INTERRUPT_S, session.spec.longest_s)
    reply_s = _left_s(arrived, INTERRUPT_S) if deadline_s > INTERRUPT_S else None
    if (
        reply_s is None and session.people.may_hold
    ):  # the deadline does not run while a person is waited for, and the client's does
        reply_s = _left_s(arrived, HELD_S)
    ongoing = session.begin(code, language=language, deadline_s=deadline_s, since=arrived)
    held.enter_context(ongoing.waited_for())
    cell = await ongoing.by(reply_s)
    return Reply(_told(ongoing, cell, "This call itself:"), (ongoing, cell))


async def _go_on(left: Ongoing, word: str | None, arrived: float, held: ExitStack) -> Reply:
    """Answer a call that finds a cell whose end nobody was told; without a word it is one with code, which is not executed."""
    held.enter_context(left.waited_for())
    if word == "interrupt":
        await left.interrupt()
    reply_s = 0.0 if word is None else LADDER_S + 1 if word == "interrupt" else _left_s(arrived, INTERRUPT_S)
    cell = await left.by(reply_s)
    items = _told(left, cell, f"Cell {cell.number} itself:")
    if word is None:
        items.append(said(f"The code of this call was not executed. Send it again{_when(cell)}."))
    return Reply(items, (left, cell))


def _told(ongoing: Ongoing, cell: Cell, own: str) -> list[InputItem]:
    """Return what is new of a cell, and before it the rest of those whose end nobody was told."""
    before = [output for one in ongoing.before for output in _end_of(one)]
    if len(before) > len(ongoing.before):
        before.append(_notice(own))
    items = shown(rest_of(cell, ongoing.shown), before)
    if cell.status == "running" and ongoing.waits_for is not None:
        items[-1] = said(_waits(cell, ongoing.waits_for))
    return items


def _waits(cell: Cell, waits_for: WaitsFor) -> str:
    sign = COMMENT[cell.language]
    if waits_for == "approval":
        return (
            f"Cell {cell.number} has to be approved by a person, who has not decided yet. Nothing of it has run. Make the same call again to wait "
            f"on, or call with `{sign} interrupt` alone to give it up. Other code is not executed before."
        )
    what = "has asked a person, who has not answered yet"
    if waits_for == "effect":
        what = "is about to send something that a person has to approve, who has not decided yet"
    return (
        f"Cell {cell.number} {what}. What it has shown so far stands above. Call with `{sign} wait` alone "
        f"to wait on, or with `{sign} interrupt` alone to end it and keep its variables. Other code is not executed before it has ended."
    )


def _end_of(left: Ongoing) -> list[Output]:
    """Return how a cell has ended that nobody was told of, and what is new of it."""
    which = "which was still running," if left.was_answered else "for which nobody waited any more,"
    if left.ending.cancelled() or left.ending.exception() is not None:
        return [_notice(f"Cell {left.cell.number}, {which} could not be seen through to its end.")]
    ended, since = left.ending.result(), " since" if left.was_answered else ""
    rest = rest_of(ended, left.shown).outputs
    what = f"What it showed{since}:" if rest else f"It showed nothing{since}."
    return [_notice(f"Cell {ended.number}, {which} has ended with status {ended.status}. {what}"), *rest]


def _notice(sentence: str) -> Text:
    return Text(text=sentence, source="notice")


def shown(cell: Cell, before: Sequence[Output] = ()) -> list[InputItem]:
    """Return what the model is told of a cell, and how to get on with one that did not end in time.

    Args:
        cell: It.
        before: What stands before it.
    """
    items = answer_after(before, cell)
    sign, last = COMMENT[cell.language], items[-1]
    if cell.status == "running":
        items[-1] = said(
            f"Cell {cell.number} has not ended yet: it is still running. What it has shown so far stands above. Call with `{sign} wait` alone to wait for it "
            f"and to see what is new, or with `{sign} interrupt` alone to end it and keep its variables. Other code is not executed before it has ended."
        )
    elif cell.status == "timeout" and asked_s(cell.code, cell.language) is None and last["type"] == "input_text":
        items[-1] = said(
            f"{last['text']} Code that needs longer says so in its first line: `{how_to_ask(cell.language)}`."
        )
    return items


def _when(cell: Cell) -> str:
    return f" when cell {cell.number} has ended" if cell.status == "running" else ""


def _left_s(arrived: float, until_s: float) -> float:
    return max(0.1, arrived + until_s - time.monotonic())
