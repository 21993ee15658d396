"""What is told of the browser's HTTPS by a kernel host that was taken over: it is bounded, named, and ends nothing else."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from cellwright.browser_https import BrowserHttps
from cellwright.egress import Tape
from cellwright.outgoing import REQUESTS, Outgoing
from cellwright.record.journal import Journal, open_run
from cellwright.record.reader import Run, read_run
from cellwright.record.records import CellOpened, Exchanged, Note, RequestSent
from cellwright.record.verdict import verify
from cellwright.replay.effects import sent_by_cells
from cellwright.sandbox import door_https
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.sandbox.door import Door
from cellwright.secret_uses import secrets_of
from cellwright_kernel.wire_https import BODY_BYTES, HTTPS_LINE_BYTES, HTTPS_MESSAGE, HttpsAnswer

MIB = 1024**2
SECRET = "correct horse battery staple"
TOLD_NO_MORE = "The kernel host ceased to tell of the browser's HTTPS. What that browser loads now is not recorded."
BEGAN, ENDED = b'{"type":"began"}\n', b'{"type":"ended"}\n'


class _Taken(httpx2.AsyncBaseTransport, httpx2.AsyncByteStream):
    """A kernel host that says what it was given, however much of it is taken."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.taken_bytes = 0
        self.asked: list[bytes] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(await request.aread())
        return httpx2.Response(200, stream=self if request.url.path == "/https" else _Taken(iter(())))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(0)
            self.taken_bytes += len(piece)
            yield piece


def body(data: bytes | None = b"", **fields: Any) -> dict[str, Any]:
    given = {} if data is None else {"data": base64.urlsafe_b64encode(data).decode()}
    return {"size_bytes": len(data or b""), **given, **fields}


def request(**fields: Any) -> dict[str, Any]:
    return {"method": "GET", "host": "shop.test", "port": 443, "target": "/", **fields}


def exchanged(**fields: Any) -> bytes:
    said = {"type": "exchanged", "cell": 1, "request": request(), "request_body": body(), "status": 200, "body": body()}
    return json.dumps({**said, **fields}).encode() + b"\n"


async def listened(pieces: Iterator[bytes], tape: Tape | None = None) -> tuple[Run, int]:
    """Let a kernel host tell all of it; return what is in the run, and how much was listened to."""
    spec = Spec(allow=("shop.test:443",), secrets=(SecretSpec(name="KEY", hosts=("shop.test",)),))
    secrets = secrets_of(spec, {"KEY": SECRET})
    with open_run(session_id="s", driver="library", spec=spec, secrets=secrets) as journal:
        journal.append(CellOpened(number=1, language="python", code="", started_at="2026-11-29T16:17:24.000Z"))
        taken = _Taken(pieces)
        await _listen(BrowserHttps(spec.allow, journal, Outgoing(journal, lambda: 1), tape), Door(taken))
        folder = _closed(journal)
    assert verify(folder).problems == ()
    return read_run(folder), taken.taken_bytes


async def _listen(https: BrowserHttps, door: Door) -> None:
    await https.begin(door)
    if https._listening is not None:
        await asyncio.wait({https._listening}, timeout=30)
    await https.stop()


def _closed(journal: Journal) -> Any:
    return journal.folder


def notes(run: Run) -> list[str]:
    return [record.text for record in run.records if isinstance(record, Note) and record.topic == "https"]


GARBAGE: dict[str, bytes] = {
    "no JSON": b"\x00\xff{\n",
    "a list": b"[]\n",
    "deep nesting": b"[" * 100_000 + b"\n",
    "an unknown kind": b'{"type":"believe_me"}\n',
    "an event of a cell": b'{"type":"heartbeat"}\n',
    "a method with a line break": exchanged(request=request(method="GET\r\nX: y")),
    "a target with a line break": exchanged(request=request(target="/\r\n")),
    "a target without end": exchanged(request=request(target="/" + "a" * 20_000)),
    "no port": exchanged(request=request(port=0)),
    "a status that is none": exchanged(status=10**30),
    "a thousand headers": exchanged(headers=[["a", "b"]] * 1000),
    "headers of many megabytes": exchanged(headers=[["a", "b" * 32_000]] * 200),
    "a kind of many megabytes": b'{"type":"' + b"x" * 5 * MIB + b'"}\n',
    "a size below nothing": exchanged(body=body(None, size_bytes=-1)),
    "a body that is too large": exchanged(body=body(b"x" * (BODY_BYTES + 1))),
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_what_is_no_message_ends_the_listening_and_is_named(what: str) -> None:
    run, _ = await listened(iter([BEGAN, GARBAGE[what], exchanged()]))
    (note,) = notes(run)
    assert note.startswith("The kernel host is not believed any more in what it tells of the browser's HTTPS.")
    assert len(note) < 500
    assert not [record for record in run.records if isinstance(record, Exchanged)]


async def test_a_message_of_a_gigabyte_is_not_listened_to_for_long() -> None:
    run, taken_bytes = await listened(iter([BEGAN, *([b"x" * MIB] * 1024)]))
    assert "It sent a message without end." in notes(run)[0]
    assert taken_bytes <= HTTPS_LINE_BYTES + 2 * MIB


async def test_a_flood_of_messages_ends_and_fills_nothing() -> None:
    run, _ = await listened(iter([BEGAN, *([exchanged() * 100] * 5000)]))
    assert "It told more during one cell than is listened to." in notes(run)[0]
    assert len([record for record in run.records if isinstance(record, Exchanged)]) == REQUESTS


async def test_how_much_was_missed_is_noted_once() -> None:
    run, _ = await listened(iter([BEGAN, *[b'{"type":"missed","exchanges":7}\n'] * 5000, ENDED]))
    one, other = notes(run)
    assert one == "7 exchanges of the browser by HTTPS had no room in the record."
    assert "It said more than once how much it had missed." in other


async def test_who_stops_telling_before_it_is_asked_to_is_noted() -> None:
    tape = Tape((), lambda _: None, lambda _, *, matters: None)  # noqa: ARG005 - nobody is told
    run, _ = await listened(iter([BEGAN, ENDED]), tape)
    assert notes(run) == [TOLD_NO_MORE]


async def test_only_what_is_looked_at_is_answered_as_an_icon() -> None:
    said: list[tuple[str, bool]] = []

    def tell(sentence: str, *, matters: bool) -> None:
        said.append((sentence, matters))

    tape = Tape((), lambda _: None, tell)
    asks = [{"request": request(method=method), "is_icon": True, "body": body()} for method in ("GET", "POST")]
    asks.append({"request": request(method="POST", target="/beacon"), "is_beacon": True, "body": body()})
    lines = (json.dumps({"type": "asked", "number": 1, **ask}).encode() + b"\n" for ask in asks)
    await listened(iter([BEGAN, *lines, ENDED]), tape)
    assert sorted(said) == [
        ("POST https://shop.test:443/ is not in the record.", True),
        ("POST https://shop.test:443/beacon is not in the record; nobody waits for its answer.", False),
    ]


async def test_what_the_record_answered_is_marked_so_though_it_is_told_when_the_tape_is_lifted() -> None:
    tape = Tape((), lambda _: None, lambda _, *, matters: None)  # noqa: ARG005 - nobody is told

    def pieces() -> Iterator[bytes]:
        yield BEGAN
        yield json.dumps({"type": "asked", "number": 1, "request": request(), "body": body()}).encode() + b"\n"
        yield from [b""] * 10
        tape.lift()
        yield exchanged()
        yield exchanged()

    run, _ = await listened(pieces(), tape)
    assert [one.taped for one in run.records if isinstance(one, Exchanged)] == [True, False]


async def test_what_a_sandbox_may_not_reach_is_not_recorded() -> None:
    lies = [{"host": "other.test"}, {"port": 8443}, {"host": "../../etc"}, {"host": "shop.test\u0000"}]
    run, _ = await listened(iter([BEGAN, *(exchanged(request=request(**lie)) for lie in lies), exchanged(), ENDED]))
    assert notes(run) == [TOLD_NO_MORE]
    (one,) = (record for record in run.records if isinstance(record, Exchanged))
    assert (one.host, one.scheme, one.claimed) == (
        "shop.test",
        "https",
        ("cell", "method", "host", "port", "target", "request_body", "status", "reason", "headers", "body"),
    )


async def test_a_cell_that_does_not_exist_is_none() -> None:
    run, _ = await listened(iter([BEGAN, exchanged(cell=2**50), exchanged(cell=0), exchanged(), ENDED]))
    assert [record.cell for record in run.records if isinstance(record, Exchanged)] == [None, None, 1]


async def test_a_body_with_the_value_of_a_secret_is_not_kept() -> None:
    said = exchanged(body=body(f"hello {SECRET}".encode()), headers=[["X-Key", SECRET]])
    run, _ = await listened(iter([BEGAN, said, exchanged(body=body(b"hello")), ENDED]))
    one, other = (record for record in run.records if isinstance(record, Exchanged))
    assert (one.body.kept, one.headers, other.body.kept) == (False, (("X-Key", "[secret KEY]"),), True)
    assert (one.body.sha256, one.body.size_bytes) == (
        "",
        len(f"hello {SECRET}"),
    )  # a hash would let a short one be guessed


async def test_an_answer_that_is_larger_than_the_inside_takes_is_none() -> None:
    taken = _Taken(iter(()))
    await door_https.answer(Door(taken), 1, HttpsAnswer(status=200, body=b"x" * 2 * BODY_BYTES))
    await door_https.answer(Door(taken), 1, HttpsAnswer(status=200, body=b"x" * BODY_BYTES))
    assert [json.loads(asked)["status"] for asked in taken.asked] == [502, 200]


async def test_a_body_that_nobody_saw_has_no_hash() -> None:
    run, _ = await listened(iter([BEGAN, exchanged(body=body(None, size_bytes=9 * MIB)), ENDED]))
    (one,) = (record for record in run.records if isinstance(record, Exchanged))
    assert (one.body.size_bytes, one.body.sha256, one.body.kept) == (9 * MIB, "", False)


async def test_what_is_told_to_change_something_counts_and_what_is_told_to_change_nothing_proves_nothing() -> None:
    sent = json.dumps({"type": "sent", "cell": 1, "request": request(method="POST", target="/order")}).encode() + b"\n"
    run, _ = await listened(iter([BEGAN, sent, exchanged(), ENDED]))
    (one,) = (record for record in run.records if isinstance(record, RequestSent))
    assert (one.method, one.scheme, one.claimed) == ("POST", "https", ("cell", "method", "host", "port", "target"))
    assert sent_by_cells(run) == {1: ("POST https://shop.test:443/order",)}


def test_a_message_of_two_whole_bodies_is_within_its_line() -> None:
    data = b"\xff" * BODY_BYTES
    line = exchanged(request_body=body(data), body=body(data), headers=[["a" * 1000, "b" * 30_000]] * 2)
    assert len(line) <= HTTPS_LINE_BYTES
    HTTPS_MESSAGE.validate_json(line)
