"""Bodies that say they are compressed are looked through as whoever opens them would read them, in whatever pieces they come."""

from __future__ import annotations

import asyncio
import gzip
import random
import resource
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.egress.bodies import BodyWatch
from cellwright.egress.placeholders import Misplaced, Placeholders, Refused
from cellwright.secrets import Secrets

SECRETS = Secrets({"KEY": "hunter2-value"}, {"KEY": ("example.com",)})
PLACEHOLDERS = Placeholders(SECRETS)
KEY = SECRETS.placeholders["KEY"].encode()
NOISE = bytes(random.Random(1).choices(b"a few letters\n", k=4000))  # noqa: S311 - the same each time
HIDDEN = NOISE[:1500] + b"key=" + KEY + NOISE[1500:]
"""Text, since what cannot be made shorter stands as it is in what is compressed."""


def raw(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(data) + deflate.flush()


def either_way() -> bytes:
    """Deflate that says nothing to who takes it with a head, and the placeholder to who takes it without."""
    length = 0x009C  # the second byte of a head is the first one of a length here
    first = bytes((0x78, 0x9C, 0x00, 0x63, 0xFF))
    return first + (0xFF63 ^ 0xFFFF).to_bytes(2, "little") + bytes(length - 2) + raw(HIDDEN)


FOUND = (
    ("gzip", gzip.compress(HIDDEN)),
    ("x-gzip", gzip.compress(HIDDEN)),
    ("GZIP ", gzip.compress(HIDDEN)),
    ("gzip;q=1.0", gzip.compress(HIDDEN)),
    ('"gzip"', gzip.compress(HIDDEN)),
    ("gzip", gzip.compress(b"nothing") + gzip.compress(HIDDEN)),
    ("gzip", gzip.compress(b"nothing") + bytes(5000) + gzip.compress(HIDDEN)),
    ("gzip", gzip.compress(HIDDEN)[:-9]),
    ("deflate", zlib.compress(HIDDEN)),
    ("deflate", raw(HIDDEN)),
    ("deflate, gzip", gzip.compress(zlib.compress(HIDDEN))),
    ("gzip, identity, gzip", gzip.compress(gzip.compress(HIDDEN))),
    ("identity", HIDDEN),
    ("aws-chunked", HIDDEN),
)
CLOSED = (
    ("br", b"\x0b\x02\x80hello\x03", "is compressed by br, so that it cannot be looked through"),
    ("gzip, zstd", b"x", "is compressed by zstd, so"),
    ("compress", b"x", "is compressed by compress, so"),
    ("Snappy", b"x", "is compressed by snappy, so"),
    ("lz4", b"x", "is compressed by lz4, so"),
    ("pack200-gzip", b"x", "is compressed by pack200-gzip, so"),
    ("gzip, gzip, gzip, gzip", b"x", "is compressed by more than 3 codings, so"),
    ("gzip", b"plain text", "says that it is compressed, and could not be opened, so"),
    ("gzip", gzip.compress(b"one") + b"more", "says that it is compressed, and could not be opened, so"),
    ("deflate", either_way(), "says that it is compressed, and could not be opened, so"),
    ("deflate", b"\xff\xff\xff\xff\xff", "says that it is compressed, and could not be opened, so"),
)
FINE = (
    ("gzip", gzip.compress(b"hello " * 100_000)),
    ("deflate", zlib.compress(b"hello")),
    ("deflate", raw(b"hello")),
    ("gzip", gzip.compress(b"one") + gzip.compress(b"two") + bytes(512)),
    ("gzip", gzip.compress(KEY[:-1])),
    ("gzip", b"".join(gzip.compress(b"a line of a log, by itself") for _ in range(1000))),
    ("utf-8", b"hello"),
)


async def look(coding: str, body: bytes, size: int = 65536) -> None:
    watch = BodyWatch(PLACEHOLDERS, [(b"Content-Encoding", coding.encode())], "evil.org", 80)
    for start in range(0, len(body), size):
        await watch.look(body[start : start + size])


@pytest.mark.parametrize(("coding", "body"), FOUND, ids=range(len(FOUND)))
@pytest.mark.parametrize("size", [1, 977, 65536])
async def test_a_placeholder_within_is_found(coding: str, body: bytes, size: int) -> None:
    assert (KEY in body) == (body == HIDDEN), "it is not found as it is"
    with pytest.raises(Misplaced, match=r"the secret KEY stood in the body of a request to evil\.org:80"):
        await look(coding, body, size)


@pytest.mark.parametrize(("coding", "body", "sentence"), CLOSED, ids=range(len(CLOSED)))
async def test_what_cannot_be_opened_is_refused_and_says_what_to_do(coding: str, body: bytes, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        await look(coding, body)
    assert not isinstance(refused.value, Misplaced)
    assert f"The body of a request to evil.org:80 {sentence}" in str(refused.value)
    assert str(refused.value).endswith("Send it as it is, or compressed by gzip.")


@pytest.mark.parametrize(("coding", "body"), FINE, ids=range(len(FINE)))
@pytest.mark.parametrize("size", [1, 65536])
async def test_a_body_without_one_goes_on(coding: str, body: bytes, size: int) -> None:
    await look(coding, body, size)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300), st.sampled_from([gzip.compress, zlib.compress, raw]))
async def test_a_placeholder_is_found_wherever_it_stands(
    before: bytes, after: bytes, compress: type[gzip.compress]
) -> None:
    coding = "gzip" if compress is gzip.compress else "deflate"
    with pytest.raises(Misplaced):
        await look(coding, compress(before + KEY + after), 7)


async def test_a_body_that_grows_without_measure_is_refused_and_never_held() -> None:
    bomb = gzip.compress(bytes(100 * 1024**2))
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="becomes more than 200 times as long when it is opened"):
            await look("gzip", bomb)
        assert tracemalloc.get_traced_memory()[1] < 2 * 1024**2
    finally:
        tracemalloc.stop()


NOTHING = gzip.compress(b"")
SILENT = (
    ("gzip, gzip", gzip.compress(NOTHING + bytes(100 * 1024**2))),
    ("gzip, gzip, gzip", gzip.compress(gzip.compress(NOTHING + bytes(100 * 1024**2)))),
    ("gzip, gzip", gzip.compress(NOTHING * 500_000)),
    ("gzip", NOTHING * 10_000),
)


@pytest.mark.parametrize(("coding", "body"), SILENT, ids=range(len(SILENT)))
async def test_a_body_that_is_much_work_and_says_nothing_is_refused_and_others_have_their_turn(
    coding: str, body: bytes
) -> None:
    looking = asyncio.ensure_future(look(coding, body))
    turns, before = [0.0], time.thread_time()
    while not looking.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append(now - before)
        before = now
    with pytest.raises(Refused, match="becomes more than 200 times as long when it is opened"):
        looking.result()
    assert max(turns) < 0.5, "once it took 2 s at a time and more"


async def test_a_head_with_thousands_of_codings_takes_no_memory() -> None:
    headers = [(b"Content-Encoding", b"gzip," * 6000)]
    before = resident()
    watches = [BodyWatch(PLACEHOLDERS, headers, "evil.org", 80) for _ in range(10)]
    assert resident() - before < 20 * 1024**2, "once it was 280 MB"
    with pytest.raises(Refused, match="is compressed by more than 3 codings"):
        await watches[0].look(b"x")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
