"""Values and paths made up by the thousand, as a kernel host that was taken over could send them: each is taken or refused in words."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from cellwright.answer import answer
from cellwright.errors import BadPath, CellwrightError
from cellwright.files import copy_out
from cellwright.record.reader import read_run
from cellwright.record.verdict import verify
from cellwright.sandbox.door import Door
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.files import BadPath as RefusedInside
from cellwright_kernel.files import Files, TooLarge, read_chunks
from cellwright_kernel.wire import EVENT, Cell, FileInfo, KernelConnection, Ready

pytestmark = pytest.mark.slow

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Where hundreds of runs and folders are made: a disk would be most of what they take."""
MANY = settings(max_examples=150, deadline=None, derandomize=True, database=None)
FEW = settings(MANY, max_examples=60)

NUMBERS = st.one_of(st.integers(-2, 4), st.integers(), st.floats(), st.just(2**53), st.booleans())
STRINGS = st.one_of(
    st.text(max_size=20), st.sampled_from(("log", "result", "text", "image", "ok", "error", "closed", ""))
)
ANYTHING = st.recursive(
    st.none() | NUMBERS | STRINGS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(STRINGS, below, max_size=4),
    max_leaves=8,
)
PICTURES = ("iVBORw0KGgo=", "/9j/", "UklGRgAAAABXRUJQ", "AAAA", "*", "iVBOR")


def mostly(*usual: Any) -> st.SearchStrategy[Any]:
    """Give one of the usual values most of the time, and anything else now and then."""
    return st.one_of(st.sampled_from(usual), st.sampled_from(usual), st.sampled_from(usual), ANYTHING)


def thing(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Give an object with these fields, some of them absent, and now and then one too many."""
    return st.builds(
        lambda whole, without, more: {name: v for name, v in whole.items() if name not in without} | more,
        st.fixed_dictionaries(fields),
        st.one_of(st.just(set()), st.sets(st.sampled_from(sorted(fields)), max_size=1)),
        st.one_of(st.just({}), st.just({}), st.just({}), st.dictionaries(STRINGS, ANYTHING, max_size=1)),
    )


TEXTS = thing(
    type=mostly("text"),
    text=STRINGS,
    source=mostly("log", "stdout", "error", "notice", "result"),
    of_cell=mostly(None, 1, 2),
    missing_chars=mostly(0, 5),
)
IMAGES = thing(
    type=mostly("image"),
    media_type=mostly("image/png", "image/jpeg", "image/webp"),
    width=mostly(1, 65535),
    height=mostly(1, 65535),
    data=mostly(*PICTURES),
    of_cell=mostly(None, 1),
)
STATUSES = ("ok", "ok", "error", "timeout", "interrupted", "kernel_died", "sandbox_lost", "denied", "running")
EVENTS = st.one_of(
    thing(type=mostly("output"), number=mostly(None, 0, 1, 2, 10**6), output=TEXTS | IMAGES),
    thing(type=mostly("withdrawn"), number=mostly(0, 1, 2, 10**6)),
    thing(type=mostly("kept"), number=mostly(0, 1), text=STRINGS),
    thing(type=mostly("piece"), text=STRINGS, source=mostly("stdout", "log")),
    thing(type=mostly("heartbeat")),
    thing(
        type=mostly("closed"),
        status=mostly(*STATUSES),
        truncated=mostly(False, True),
        rung=mostly(None, "interrupt", "kill_kernel", "replace_sandbox"),
        kernel_generation=mostly(1, 2),
        screen_changed=mostly(True, False),
    ),
    ANYTHING,
)


def line(value: Any) -> bytes:
    """Write a value as a hostile host may: NaN and half characters too."""
    return json.dumps(value).encode()


@MANY
@given(st.binary(max_size=200) | ANYTHING.map(line) | EVENTS.map(line))
def test_whatever_is_no_event_is_refused_as_such(data: bytes) -> None:
    for kind in (EVENT, *map(TypeAdapter, (Ready, KernelConnection, list[FileInfo]))):
        try:
            kind.validate_json(data)
        except ValidationError:
            continue


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"type":', "}"), ('{"type":"output","output":', "}")])
def test_what_is_nested_deeply_is_refused_as_anything_else(opening: str, closing: str, depth: int) -> None:
    with pytest.raises(ValidationError):
        EVENT.validate_json(opening * depth + "1" + closing * depth)


class _Said(httpx2.AsyncBaseTransport):
    """A kernel host that answers each request with these pieces, whatever was asked; it remembers what."""

    def __init__(self, pieces: Sequence[bytes], status: int = 200) -> None:
        self.asked: list[httpx2.Request] = []
        self._pieces = pieces
        self._status = status

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return httpx2.Response(self._status, stream=_Pieces(self._pieces))


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@FEW
@given(st.lists(EVENTS, max_size=8), st.integers(1, 40))
def test_a_cell_of_any_events_ends_is_told_and_is_recorded(events: list[Any], piece: int) -> None:
    """Out of order, twice, withdrawn before they came, after the end, cut anywhere."""
    stream = b"".join(line(event) + b"\n" for event in events)
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]

    async def play(folder: Path) -> tuple[Cell, Cell, Path]:
        backend = FakeBackend()
        async with Session.open(backend=backend, runs=folder) as session:
            backend.made[0].door._transport = _Said(pieces)
            cell = await session.execute("1")
            if cell.status != "sandbox_lost":
                await backend.made[0].close()  # its late events would be the same again
            return cell, await session.execute("log(2)"), session.run_dir

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        cell, after, run = asyncio.run(play(Path(folder)))
        assert cell.status in {"ok", "error", "timeout", "interrupted", "kernel_died", "sandbox_lost"}
        assert len(answer(cell)) >= 1
        assert [closed.status for closed in read_run(run).cells] == [cell.status, after.status]
        assert verify(run).status == "whole"


NAMES = st.one_of(
    st.text(alphabet="ab./\\ \n\0%é\ud800", max_size=12),
    st.text(max_size=30),
    st.sampled_from(
        (
            "..",
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a/..",
            ".",
            "",
            "~",
            "a//b",
            "x" * 300,
            "é" * 70_000,
            "a\n",
            "CON",
            "..\\x",
        )
    ),
)


@MANY
@given(NAMES)
def test_a_path_is_asked_for_as_it_is_or_not_at_all(path: str) -> None:
    """A path that a client shortens would be another route: `files/../cells/running`."""
    host = _Said([b"data"])

    async def read() -> bytes:
        return b"".join([chunk async for chunk in Door(host).read_file(path)])

    try:
        assert asyncio.run(read()) == b"data"
    except BadPath:
        assert host.asked == []
        return
    (asked,) = host.asked
    assert asked.url.host == "sandbox"
    assert b"?" not in asked.url.raw_path
    assert unquote(asked.url.raw_path.decode()) == "/files/" + path.encode("utf-8", "replace").decode()


@MANY
@given(NAMES)
def test_files_gives_what_lies_below_home_and_nothing_else(path: str) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        home = Path(folder, "home")
        (home / "a").mkdir(parents=True)
        Path(folder, "x").write_text("outside")
        (home / "a" / "b").write_text("inside")
        (home / "b").symlink_to("..")
        (home / "aa").symlink_to(Path(folder, "x"))
        before = sorted(Path(folder).rglob("*"))
        acts: tuple[Callable[[], object], ...] = (
            lambda: b"".join(read_chunks(*Files(home).open(path))),
            lambda: Files(home).listing(path),
        )
        for act in acts:
            try:
                given_ = act()
            except (RefusedInside, TooLarge, FileNotFoundError, UnicodeEncodeError):
                continue
            assert given_ == b"inside" or all(info.path.startswith("a") for info in given_)  # type: ignore[attr-defined]
        assert sorted(Path(folder).rglob("*")) == before


class _Listing(httpx2.AsyncBaseTransport):
    """A kernel host that lists any names, and has a file under each."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/files":
            listed = [{"path": name, "size_bytes": 4, "modified_at": ""} for name in self._names]
            return httpx2.Response(200, stream=_Pieces([line(listed)]))
        return httpx2.Response(200, stream=_Pieces([b"data"]))


@MANY
@given(st.lists(NAMES, max_size=6))
def test_no_name_that_is_listed_leads_out_of_the_callers_folder(names: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        out = Path(folder, "way", "out")
        Path(folder, "way").mkdir()
        with contextlib.suppress(CellwrightError):
            asyncio.run(copy_out(Door(_Listing(names)), out, (), holds=lambda *_: None))
        assert [path for path in Path(folder).rglob("*") if not path.is_relative_to(out)] == [Path(folder, "way")]
        assert {path.read_bytes() for path in out.rglob("*") if path.is_file()} <= {b"data"}
