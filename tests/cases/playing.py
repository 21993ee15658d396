"""A case is played: its cells in a real session, or its turns in a loop, and what came is compared.

Flows in: cases. Flows out: failed assertions that say which cell of the case said what. Decided here: what is compared is
the answer, which is what a model reads; and which cases share a session: all but the fresh ones, until one fails. Of those the
next one is played already while one is waited for.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.cases.catalogue import (
    Case,
    CellCase,
    Containing,
    Late,
    LoopCase,
    Matching,
    Meanwhile,
    Picture,
    Said,
    SpecCase,
    Turn,
)

from cellwright.answer import answer
from cellwright.loop import run
from cellwright.model.base import Response
from cellwright.record.reader import read_run
from cellwright.record.stored import StoredText
from cellwright.sandbox.base import Limits, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, response
from cellwright_kernel.wire import Cell, Event, OutputEvent, PieceEvent, Text

DEADLINE_S = 30.0
GONE_S = 15.0
MOST_TURNS = 30


class Sessions:
    """One session that cases share, opened when the first needs it and again after one has failed."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._shared: Session | None = None

    @asynccontextmanager
    async def session(self, case: Case) -> AsyncIterator[Session]:
        """Give the session that a case is to have."""
        if case.session == "fresh":
            await self.close()
            async with Session.open(_spec(case.spec)) as session:
                yield session
            await _assert_gone(case.gone_after_close)
            return
        assert case.spec == SpecCase(), f"{case.id} wants a Spec of its own, so it needs a fresh session"
        if self._shared is None:
            self._shared = await self._stack.enter_async_context(Session.open())
        try:
            yield self._shared
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the shared session, if there is one."""
        self._shared = None
        await self._stack.aclose()


class Fresh:
    """Cases with a session to themselves, two at a time: each waits more than it computes."""

    def __init__(self, cases: Sequence[Case], sessions: Sessions) -> None:
        self._cases = [case for case in cases if case.cells and case.session == "fresh"]
        self._sessions = sessions
        self._playing: dict[str, asyncio.Task[None]] = {}

    async def play(self, case: Case) -> None:
        """Play one of them to its end, and begin the next."""
        at = self._cases.index(case)
        for one in self._cases[at : at + 2]:
            if one.id not in self._playing:
                self._playing[one.id] = asyncio.ensure_future(play(one, self._sessions))
        await self._playing[case.id]

    async def close(self) -> None:
        """Give up what nobody has waited for."""
        left = [playing for playing in self._playing.values() if not playing.done()]
        for playing in left:
            playing.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def play(case: Case, sessions: Sessions) -> None:
    """Play a case that has cells."""
    async with sessions.session(case) as first:
        if any(cell.in_second_session for cell in case.cells):
            async with Session.open(_spec(case.spec)) as second:
                await _play_cells(first, second, case.cells)
        else:
            await _play_cells(first, first, case.cells)


async def _play_cells(first: Session, second: Session, cells: Sequence[CellCase]) -> None:
    """Execute a case's cells one after the other; each must be as expected before the next is posted."""
    numbers: list[int] = []
    for place, expected in enumerate(cells, start=1):
        session = second if expected.in_second_session else first
        if expected.restart_before:
            await session.restart(expected.language)
        began = time.monotonic()
        cell = await _executed(session, expected)
        took_s = time.monotonic() - began
        numbers.append(cell.number)
        try:
            _compare(cell, expected, numbers)
            assert took_s < expected.within_s, f"it took {took_s:.1f} s"
            if expected.kept_whole is not None:
                assert _kept(session, cell.number, expected.kept_whole), "the run does not keep the whole text"
        except AssertionError as error:
            raise AssertionError(f"cell {place}: {error}\n{_shown(cell)}") from None


async def play_loop(case: LoopCase) -> None:
    """Have a scripted model drive a run, and compare how it ended and what the model was told."""
    turns = [_response(turn) for turn in case.turns]
    turns += turns[-1:] * MOST_TURNS if case.repeat_last else []
    model = ScriptedModel(turns)
    outcome = await run("Do it.", model=model, backend=FakeBackend())
    assert (outcome.status, outcome.cells) == (case.status, case.cells), outcome
    assert case.reason is None or case.reason in (outcome.reason or ""), outcome
    assert case.requests in {None, len(model.requests)}, f"{len(model.requests)} requests"
    history = model.requests[-1].history
    answers = [item for item in history if item.get("type") == "function_call_output"]
    assert [item["call_id"] for item in answers] == [call_id for call_id, _ in case.answers]
    for item, (call_id, expected) in zip(answers, case.answers, strict=True):
        parts = item["output"]
        assert isinstance(parts, list)
        text = "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
        assert _is(expected, text, []), f"the answer to {call_id} is {text!r}"
    if case.echoed:
        sent = [dict(raw) for turn in case.turns[: len(model.requests) - 1] for raw in turn.items]
        assert [item for item in history if item in sent][: len(sent)] == sent, (
            "the model's items did not go back whole"
        )


def _response(turn: Turn) -> Response:
    return response(*(dict(item) for item in turn.items), status=turn.status, reason=turn.reason)


def _spec(case: SpecCase) -> Spec:
    limits = Limits() if case.memory_bytes is None else Limits(memory_bytes=case.memory_bytes)
    return Spec(width=case.width, height=case.height, allow=case.allow, limits=limits)


async def _executed(session: Session, expected: CellCase) -> Cell:
    wrote = asyncio.Event()
    meanwhile = expected.meanwhile

    def watch(event: Event) -> None:
        text = event.text if isinstance(event, PieceEvent) else ""
        if isinstance(event, OutputEvent) and isinstance(event.output, Text):
            text = event.output.text
        if meanwhile is not None and meanwhile.once in text:
            wrote.set()

    executing = asyncio.ensure_future(
        session.execute(
            expected.code,
            language=expected.language,
            deadline_s=expected.deadline_s or DEADLINE_S,
            on_event=watch,
        )
    )
    if meanwhile is not None:
        async with asyncio.timeout(DEADLINE_S):
            await wrote.wait()
        await _act(session, executing, meanwhile, expected)
    if meanwhile is not None and meanwhile.do == "leave":
        return read_run(session.run_dir).cells[-1]
    return await executing


async def _act(session: Session, executing: asyncio.Future[Cell], meanwhile: Meanwhile, expected: CellCase) -> None:
    match meanwhile.do:
        case "interrupt":
            await session.interrupt()
        case "restart":
            await session.restart(expected.language)
        case "leave":
            executing.cancel()
            await asyncio.wait({executing})


def _compare(cell: Cell, expected: CellCase, numbers: Sequence[int]) -> None:
    items = answer(cell)
    texts = "\n".join(item["text"] for item in items if item["type"] == "input_text")
    assert cell.status == expected.status
    assert expected.rung in {None, cell.rung}, f"the rung is {cell.rung}"
    assert expected.truncated in {None, cell.truncated}, f"truncated is {cell.truncated}"
    if expected.says is not None:
        pictures = iter([(image.width, image.height) for image in cell.images])
        said = [item["text"] if item["type"] == "input_text" else next(pictures) for item in items]
        assert len(said) == len(expected.says), f"{len(said)} items, not {len(expected.says)}"
        for place, (found, wanted) in enumerate(zip(said, expected.says, strict=True), start=1):
            assert _is(wanted, found, numbers), f"item {place} is not {wanted!r}"
    for wanted_text in expected.contains:
        assert wanted_text in texts, f"{wanted_text!r} is not said"
    for pattern in expected.matches:
        assert re.search(pattern, texts), f"nothing matches {pattern!r}"
    for unwanted in expected.lacks:
        assert unwanted not in texts, f"{unwanted!r} is said"
    if expected.images is not None:
        sizes = [(image.width, image.height) for image in cell.images]
        assert len(sizes) == len(expected.images), f"{len(sizes)} pictures"
        assert all(wanted in {None, size} for size, wanted in zip(sizes, expected.images, strict=True)), f"{sizes}"
    assert expected.at_most_chars is None or len(texts) <= expected.at_most_chars, f"{len(texts)} characters"


def _is(wanted: Said, found: str | tuple[int, int], numbers: Sequence[int]) -> bool:
    match wanted:
        case Picture(image=size):
            return found == size
        case str():
            return found == wanted
        case Containing(contains=part):
            return isinstance(found, str) and part in found
        case Matching(matches=pattern):
            return isinstance(found, str) and re.search(pattern, found) is not None
        case Late(late_of=place, text=text):
            return found == f"From cell {numbers[place - 1]}, after it had ended:\n{text}"


def _shown(cell: Cell) -> str:
    parts = [f"status {cell.status}, rung {cell.rung}"]
    for item in answer(cell):
        parts.append(repr(item["text"][:2000]) if item["type"] == "input_text" else "a picture")
    return "\n".join(parts)


def _kept(session: Session, number: int, pattern: str) -> bool:
    """Whether the whole of a text that was cut, kept in the run, has the pattern."""
    found = read_run(session.run_dir)
    closed = next(cell.closed for cell in found.stored_cells if cell.opened.number == number)
    assert closed is not None
    wholes = [output.full_sha256 for output in closed.outputs if isinstance(output, StoredText) and output.full_sha256]
    return any(re.search(pattern, found.blobs.read(whole).decode("utf-8", "replace")) for whole in wholes)


async def _assert_gone(commands: Sequence[str]) -> None:
    """No process with one of these command lines is left, at the latest after a moment."""
    end = time.monotonic() + GONE_S
    while (left := [one for one in commands if one in _command_lines()]) and time.monotonic() < end:  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.05)
    assert left == [], "processes are left"


def _command_lines() -> set[str]:
    lines = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.add(path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines
