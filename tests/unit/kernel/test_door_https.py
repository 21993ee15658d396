"""The door's part for the browser's HTTPS: what it answers where there is nothing to tell, and what it tells where there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest
import pytest_asyncio

from cellwright_kernel.door import Inside, door
from cellwright_kernel.informant.informant import Informant
from cellwright_kernel.wire_https import HTTPS_ANSWER_BYTES, HttpsAnswer, HttpsBody, HttpsRequest

pytestmark = pytest.mark.asyncio

ASKED = HttpsRequest(method="GET", host="shop.test", port=443, target="/")
NOTHING = HttpsBody(size_bytes=0, data=b"")


def client(informant: Informant | None, home: Path) -> httpx2.AsyncClient:
    inside = cast("Inside", SimpleNamespace(informant=informant))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=door(inside, home)), base_url="http://sandbox")


@pytest_asyncio.fixture
async def informant() -> AsyncIterator[Informant]:
    informant = Informant(lambda: 1, ())
    yield informant
    await informant.stop()


@asynccontextmanager
async def listening(informant: Informant, *, taped: bool) -> AsyncIterator[asyncio.Queue[bytes]]:
    """Listen as the door does."""
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    telling = asyncio.ensure_future(informant.tell(lines.put, taped=taped))
    await asyncio.sleep(0)
    try:
        yield lines
    finally:
        await informant.end()
        await telling


async def test_without_a_way_out_nothing_is_told(tmp_path: Path) -> None:
    async with client(None, tmp_path) as asks:
        answers = [
            await asks.get("/https"),
            *[await asks.post(f"/https/{what}") for what in ("lift", "end", "answers/1")],
        ]
    assert [answer.status_code for answer in answers] == [404, 404, 404, 400]
    assert answers[0].json() == {"error": "Nothing is told of HTTPS here: there is no way out, or no browser."}


async def test_an_answer_to_what_does_not_wait_and_one_that_is_too_large_are_refused(
    informant: Informant, tmp_path: Path
) -> None:
    async with client(informant, tmp_path) as asks:
        late = await asks.post("/https/answers/7", content=HttpsAnswer(status=200).model_dump_json())
        large = await asks.post("/https/answers/7", content=b"x" * (HTTPS_ANSWER_BYTES + 1))
        odd = await asks.post("/https/answers/7", content=b"[]")
    assert [answer.status_code for answer in (late, large, odd)] == [404, 413, 400]


async def test_a_request_waits_for_its_answer(informant: Informant, tmp_path: Path) -> None:
    async with client(informant, tmp_path) as asks, listening(informant, taped=True) as lines:
        assert informant._looking is not None
        waiting = asyncio.ensure_future(informant._looking._asked(ASKED, NOTHING, "Document"))
        assert b'"type":"asked","number":1,' in await lines.get()
        given = await asks.post("/https/answers/1", content=HttpsAnswer(status=201).model_dump_json())
        assert (given.status_code, await waiting) == (204, HttpsAnswer(status=201))


async def test_a_thousand_requests_at_once_are_each_answered(informant: Informant) -> None:
    async with listening(informant, taped=True) as lines:
        looking = informant._looking
        assert looking is not None
        waiting = asyncio.gather(*[looking._asked(ASKED, NOTHING, "Image") for _ in range(1000)])
        for _ in range(1000):
            number = json.loads(await lines.get())["number"]
            assert informant.answer(number, HttpsAnswer(status=200))
        assert {answer and answer.status for answer in await waiting} == {200}


async def test_what_waits_when_nothing_is_asked_about_any_more_goes_out(informant: Informant, tmp_path: Path) -> None:
    async with client(informant, tmp_path) as asks, listening(informant, taped=True) as lines:
        assert informant._looking is not None
        waiting = asyncio.ensure_future(informant._looking._asked(ASKED, NOTHING, "Document"))
        await lines.get()
        assert (await asks.post("/https/lift")).status_code == 204
        assert await waiting == HttpsAnswer()
        assert await informant._looking._asked(ASKED, NOTHING, "Document") == HttpsAnswer()


async def test_who_listens_anew_takes_the_place_of_who_listened_before(informant: Informant) -> None:
    async with listening(informant, taped=False) as before, listening(informant, taped=False):
        assert await before.get() == b'{"type":"ended"}\n'
