"""Cells that take longer than a client of the guide waits.

Flows in: code, and the moment when its request arrived. Flows out: what the model is told. Decided here: code that asks for no more
time is interrupted at 24 s, so that clients which know nothing of all this get what the guide says; code that asks for more is answered at
24 s with what it has shown, and goes on; from then on a call of `# wait` alone waits for it and gives what is new, `# interrupt` ends it, and any other code is
not executed while it runs. When it has ended, the rest of what it showed stands before the next call's own output.

The words are comments, so that they harm nothing where a service knows them not. Where no cell runs, that is said.
"""

from __future__ import annotations

import re
import time
from typing import Final

from cellwright.answer import InputItem, answer, said
from cellwright.deadlines import COMMENT, asked_s, how_to_ask
from cellwright.errors import SessionBusy
from cellwright.ongoing import Ongoing, rest_of
from cellwright.session import LADDER_S, Session
from cellwright_kernel.wire import Cell, Language, Output, Text

INTERRUPT_S: Final = 24.0
"""Seconds after arrival at which a cell is interrupted, or answered as still running."""
_WORD: Final = re.compile(r"\s*(?:#|//)[ \t]*(wait|interrupt)\s*", re.ASCII)


async def respond(session: Session, code: str, language: Language, arrived: float) -> list[InputItem]:
    """Answer a call: execute its code, or go on with the cell that an earlier one left running.

    Args:
        session: Where.
        code: It may ask for more time, or be one of the words.
        language: Which kernel.
        arrived: Moment on the monotonic clock.

    Raises:
        SessionBusy: Somebody else waits for the cell that is running.
    """
    word = _WORD.fullmatch(code)
    if (left := session.left) is not None:
        return await _go_on(session, left, code, language, arrived)
    if word is None:
        return shown(await _begin(session, code, language, arrived))
    if (number := session.executing) is None:
        return [said("No cell is running. Nothing was executed.")]
    if word[1] == "interrupt":
        await session.interrupt()
        return [said(f"Cell {number} was told to end. Whoever waits for it is answered with what it has shown.")]
    raise SessionBusy(f"Somebody waits for cell {number} already. It goes on undisturbed. Nothing was executed.")


async def _begin(session: Session, code: str, language: Language, arrived: float) -> Cell:
    """Execute code that nothing stands in the way of; return its cell, closed or still running."""
    deadline_s = asked_s(code, language) or min(INTERRUPT_S, session.spec.longest_s)
    reply_s = _left_s(arrived) if deadline_s > INTERRUPT_S else None
    return await session.execute(code, language=language, deadline_s=deadline_s, since=arrived, reply_s=reply_s)


async def _go_on(session: Session, left: Ongoing, code: str, language: Language, arrived: float) -> list[InputItem]:
    """Answer a call that comes after a cell was answered as still running; arguments as with `respond`."""
    word = _WORD.fullmatch(code)
    before = left.shown
    if word is None and left.has_ended:
        return _after(left, await _begin(session, code, language, arrived))
    if word is not None and word[1] == "interrupt":
        await session.interrupt()
    reply_s = 0.0 if word is None else LADDER_S + 1 if word[1] == "interrupt" else _left_s(arrived)
    cell = await session.wait(reply_s=reply_s)
    assert cell is not None  # noqa: S101 - for the type checker; one was left
    items = shown(rest_of(cell, before))
    if word is None:
        items.append(said(f"The code of this call was not executed. Send it again{_when(cell)}."))
    return items


def _after(left: Ongoing, cell: Cell) -> list[InputItem]:
    """Put the rest of a cell that has ended meanwhile before the output of the one that was executed now."""
    number, rest = left.cell.number, tuple[Output, ...]()
    if left.ending.cancelled() or left.ending.exception() is not None:
        head = f"Cell {number}, which was still running, could not be seen through to its end."
    else:
        ended = left.ending.result()
        head = f"Cell {number}, which was still running, has ended with status {ended.status}."
        rest = rest_of(ended, left.shown).outputs
    between = (
        Text(text=f"{head} What it showed since:" if rest else f"{head} It showed nothing since.", source="notice"),
        *rest,
        *((Text(text="This call itself:", source="notice"),) if rest else ()),
    )
    return shown(cell.model_copy(update={"outputs": (*between, *cell.outputs)}))


def shown(cell: Cell) -> list[InputItem]:
    """Return what the model is told of a cell, and how to get on with one that did not end in time."""
    items = answer(cell)
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


def _left_s(arrived: float) -> float:
    return max(0.1, arrived + INTERRUPT_S - time.monotonic())
