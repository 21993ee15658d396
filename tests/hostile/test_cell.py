"""A cell in a sandbox whose kernel host was taken over: it ends, is recorded, and the next one runs in a new sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from cellwright.answer import ANSWER_CHARS, answer
from cellwright.record.reader import read_run
from cellwright.record.verdict import verify
from cellwright.sandbox import bodies
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

CLOSED = b'{"type":"closed","status":"ok"}\n'
PNG = "iVBORw0KGgo="


class _Taken(httpx2.AsyncBaseTransport):
    """A kernel host that answers everything with what it was given."""

    def __init__(self, lines: Iterator[bytes], status: int = 200) -> None:
        self._lines = lines
        self._status = status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        del request
        return httpx2.Response(self._status, stream=_Stream(self._lines))


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            await asyncio.sleep(0)
            yield line


def said(output: str, number: str = "") -> bytes:
    return f'{{"type":"output",{number}"output":{output}}}\n'.encode()


def text(**fields: str) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in {"type": '"text"', **fields}.items()) + "}"


def picture(**fields: str) -> str:
    kind = {"type": '"image"', "media_type": '"image/png"', "width": "1", "height": "1", "data": f'"{PNG}"'}
    return text(**{**kind, **fields})


HUGE = "9" * 4200
LOST: dict[str, list[bytes]] = {
    "nothing": [],
    "no end": [said(text(text='"a"', source='"log"'))],
    "no JSON": [b"\x00\xff\xfe{\n", CLOSED],
    "deep nesting": [b"[" * 1_000_000 + b"\n", CLOSED],
    "a list": [b"[]\n", CLOSED],
    "no number": [said(text(text='"a"', source='"log"'), '"number":NaN,'), CLOSED],
    "a huge number": [said(text(text='"a"', source='"log"'), f'"number":{HUGE},'), CLOSED],
    "a negative number": [said(text(text='"a"', source='"log"'), '"number":-1,'), CLOSED],
    "a float": [said(text(text='"a"', source='"log"'), '"number":1e400,'), CLOSED],
    "half a character": [said(text(text='"\\ud800"', source='"log"')), CLOSED],
    "an unknown source": [said(text(text='"a"', source='"system"')), CLOSED],
    "an unknown field": [said(text(text='"a"', source='"log"', x="1")), CLOSED],
    "of a cell beyond all": [said(text(text='"a"', source='"log"', of_cell=HUGE)), CLOSED],
    "a picture without size": [said(picture(width="-1")), CLOSED],
    "a huge picture": [said(picture(height=HUGE)), CLOSED],
    "a picture that is no base64": [said(picture(data='"\\u0000"')), CLOSED],
    "closed as huge": [b'{"type":"closed","status":"ok","kernel_generation":' + HUGE.encode() + b"}\n"],
    "closed as running": [b'{"type":"closed","status":"running"}\n'],
    "closed as denied": [b'{"type":"closed","status":"denied"}\n'],
    "closed by a rung outside": [b'{"type":"closed","status":"timeout","rung":"replace_sandbox"}\n'],
    "outputs after the end": [CLOSED, said(text(text='"a"', source='"log"'))],
    "two ends": [CLOSED, CLOSED],
    "too many outputs": [said(text(text='"a"', source='"log"'))] * 2000 + [CLOSED],
    "wholes of nothing": [f'{{"type":"kept","number":{n},"text":""}}\n'.encode() for n in range(2000)] + [CLOSED],
}


@pytest.mark.parametrize("case", LOST)
async def test_a_host_that_says_what_none_says_is_lost_and_replaced(case: str) -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        backend.made[0].door._transport = _Taken(iter(LOST[case]))
        cell = await session.execute("1")
        after = await session.execute("log(2)")
    assert (cell.status, cell.rung, after.text) == ("sandbox_lost", "replace_sandbox", "2")
    assert [closed.status for closed in read_run(session.run_dir).cells] == ["sandbox_lost", "ok"]
    assert verify(session.run_dir).status == "whole"
    assert answer(cell)[-1]["type"] == "input_text"


@pytest.mark.parametrize("status", [100, 204, 302, 304, 400, 403, 404, 409, 413, 418, 500, 599])
async def test_a_host_that_refuses_a_cell_is_lost_and_replaced(status: int) -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        backend.made[0].door._transport = _Taken(iter([b'{"error":"\x1b[2J"}']), status)
        cell = await session.execute("1")
        after = await session.execute("log(2)")
    assert (cell.status, after.text) == ("sandbox_lost", "2")


async def test_a_picture_that_is_none_becomes_a_sentence_in_the_answer() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        backend.made[0].door._transport = _Taken(iter([said(picture(data='"AAAA"')), CLOSED]))
        cell = await session.execute("1")
    assert [item["type"] for item in answer(cell)] == ["input_text"]


async def test_an_answer_stays_small_whatever_one_text_says() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        backend.made[0].door._transport = _Taken(
            iter([said(text(text='"' + "x" * 5_000_000 + '"', source='"log"')), CLOSED])
        )
        cell = await session.execute("1")
    assert len(str(answer(cell))) < ANSWER_CHARS + 1000


@pytest.mark.slow
async def test_millions_of_tiny_events_take_no_more_memory_than_on_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    most_kib = 8 * 1024
    monkeypatch.setattr(bodies, "CELL_BYTES", most_kib * 1024)
    tiny = b'{"type":"piece","text":"","source":"log"}\n' + b'{"type":"kept","number":1,"text":""}\n'

    def forever() -> Iterator[bytes]:
        while True:
            yield tiny * 1000

    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("1")
        backend.made[0].door._transport = _Taken(forever())
        before = peak_kib(anew=True)
        cell = await session.execute("1")
        grown_kib = peak_kib() - before
    assert cell.status == "sandbox_lost"
    assert grown_kib < most_kib


def peak_kib(*, anew: bool = False) -> int:
    """Return the most memory this process has had, by `anew` from now on: what tests before it took must not hide it."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])
