"""The place of questions in the kernel host: what cells ask goes out, what people answer comes in.

Flows in: questions of kernels on a Unix socket, one a connection: a line of JSON, `{"question": ...}`; and answers through the
door. Flows out: events in the running cell's stream; a line of JSON, `{"text": ...}` or `{"error": ...}`. Decided here: a question
belongs to the cell that runs, and ends with it, with its answer, or when whoever asked hangs up, as code does that is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from cellwright_kernel.people.errors import NotAnswered
from cellwright_kernel.running_cell import RunningCell
from cellwright_kernel.wire_people import PersonAnswer, PersonAskedEvent

_REQUEST_S: Final = 10.0
_LONGEST_S: Final = 7 * 86400.0
"""The outside gives up long before, and says so; this is for an outside that forgets."""


class QuestionBroker:
    """Answers the kernels with what people say.

    Args:
        socket: Where to listen; only this user can reach it.
        running: Returns the cell that runs; None between cells.
    """

    def __init__(self, socket: Path, running: Callable[[], RunningCell | None]) -> None:
        self.socket = socket
        self._running = running
        self._server: asyncio.Server | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, tuple[RunningCell, asyncio.Future[PersonAnswer]]] = {}

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    def stop(self) -> None:
        """End it; safe to call twice."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def answer(self, number: int, said: PersonAnswer) -> bool:
        """Take a person's answer; False when nobody waits for it."""
        cell, question = self._questions.get(number, (None, None))
        if cell is None or cell.is_over or question is None or question.done():
            return False
        question.set_result(said)
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):  # TimeoutError is one
            try:
                async with asyncio.timeout(_REQUEST_S):
                    line = await reader.readline()
                answer = {"text": await self._answered(line, reader)}
            except NotAnswered as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _answered(self, line: bytes, reader: asyncio.StreamReader) -> str:
        number = next(self._numbers)
        question, cell = _question(number, line), self._running()
        refused = (
            "A person is asked while a cell runs, and none does. Ask in a cell's own code."
            if cell is None
            else cell.ask_person(question)
        )
        if refused is not None or cell is None:
            raise NotAnswered(refused)
        answer: asyncio.Future[PersonAnswer] = asyncio.get_running_loop().create_future()
        self._questions[number] = cell, answer
        try:
            await _first_of(answer, cell, reader)
        finally:
            del self._questions[number]
            cell.asks_no_longer(number, was_answered=answer.done())
        if not answer.done():
            raise NotAnswered("Nobody waits for the answer any more: the cell that asked has ended.")
        said = answer.result()
        if said.text is None:
            raise NotAnswered(said.refused or "There is no answer.")
        return said.text


async def _first_of(answer: asyncio.Future[PersonAnswer], cell: RunningCell, reader: asyncio.StreamReader) -> None:
    """Wait for the answer; or until the cell is over, or whoever asked has hung up."""
    others: list[asyncio.Future[Any]] = [asyncio.ensure_future(cell.over()), asyncio.ensure_future(reader.read(1))]
    try:
        await asyncio.wait({answer, *others}, timeout=_LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _question(number: int, line: bytes) -> PersonAskedEvent:
    try:
        return PersonAskedEvent(number=number, question=json.loads(line)["question"])
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
        raise NotAnswered("This is no question to a person.") from None
