"""How many requests the gateway takes: beyond it 429 with the seconds to wait, and nobody is locked out by strangers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from cellwright.gateway import auth
from cellwright.gateway.app import make_app
from cellwright.gateway.rates import usual_at_once
from cellwright.gateway.request_pace import BURST_S, request_pace
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 40
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": f"Bearer {'u' * 40}"}


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[httpx2.AsyncClient]:
    app = make_app(Pool(Spec(), backend=FakeBackend()), token=TOKEN, hosts={"127.0.0.1"}, **limits)  # type: ignore[arg-type]
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client,
    ):
        yield client


def test_what_was_not_used_is_kept_for_some_seconds_only() -> None:
    pace = request_pace(2)
    assert [pace.take() > 0 for _ in range(2 * BURST_S + 1)] == [False] * 2 * BURST_S + [True]


async def test_a_client_that_runs_wild_is_told_when_to_ask_again() -> None:
    async with serving(a_second=0.5) as client:
        answers = [await client.get("/v1/sessions", headers=RIGHT) for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        assert (answers[-1].json()["kind"], answers[-1].headers["Retry-After"]) == ("TooManyRequests", "2")
        assert "larger --max-rate" in answers[-1].json()["error"]
        assert (await client.get("/health")).status_code == 200


async def test_more_requests_at_once_than_may_be_open_are_refused_and_the_others_are_answered() -> None:
    body = {"language": "python", "code": "import time; time.sleep(0.1); log(1)"}
    async with serving(at_once=2) as client:
        asked = [client.post("/execute", json={**body, "session_id": name}, headers=RIGHT) for name in "abcd"]
        answers = await asyncio.gather(*asked)
        assert Counter(answer.status_code for answer in answers) == {200: 2, 429: 2}
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert (refused.json()["kind"], refused.headers["Retry-After"]) == ("TooManyRequests", "1")
        assert (await client.get("/v1/sessions", headers=RIGHT)).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers", "a_second"),
    [
        ("/v1/sessions", WRONG, "REFUSED_A_SECOND"),
        ("/v1/sessions", {}, "REFUSED_A_SECOND"),
        ("/health", {}, "HEALTH_A_SECOND"),
    ],
)
async def test_strangers_are_bounded_and_lock_nobody_out(
    monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str], a_second: str
) -> None:
    monkeypatch.setattr(auth, a_second, 0.5)
    async with serving(a_second=1) as client:
        answers = [(await client.get(path, headers=headers)).status_code for _ in range(30)]
        first = 200 if path == "/health" else 401
        assert answers == [first] * 5 + [429] * 25
        assert (await client.get("/v1/sessions", headers=RIGHT)).status_code == 200


async def test_a_web_page_that_asks_again_and_again_locks_nobody_out() -> None:
    async with serving() as client:
        page = {**WRONG, "Origin": "https://example.com"}
        answers = Counter([(await client.get("/v1/sessions", headers=page)).status_code for _ in range(200)])
        assert set(answers) == {403, 429}
        assert (await client.get("/v1/sessions", headers=RIGHT)).status_code == 200


async def test_no_answer_lets_a_web_page_read_it() -> None:
    async with serving() as client:
        asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
        answers = [
            await client.options("/execute", headers=asked),
            await client.options("/execute", headers={**asked, **RIGHT}),
            await client.get("/health", headers={"Origin": "https://example.com"}),
            await client.get("/health"),
            await client.get("/v1/sessions", headers=RIGHT),
        ]
        assert [answer.status_code for answer in answers] == [403, 403, 403, 200, 200]
        assert [name for answer in answers for name in answer.headers if name.startswith("access-control")] == []


async def test_an_error_that_nobody_foresaw_is_a_sentence_and_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Pool) -> None:
        raise RuntimeError("inner words")

    monkeypatch.setattr(Pool, "sessions", fails)
    app = make_app(Pool(Spec(), backend=FakeBackend()), token=TOKEN, hosts=())
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        answer = await client.get("/v1/sessions", headers=RIGHT)
    assert (answer.status_code, answer.json()["kind"]) == (500, "CellwrightError")
    assert ("inner words" in answer.text, "Traceback" in answer.text, ".py" in answer.text) == (False, False, False)


def test_what_is_usual_leaves_room_for_every_session() -> None:
    """A cell that is streamed, three Jupyter clients of five channels each; and what else asks."""
    assert [usual_at_once(sessions) >= sessions * (1 + 15) + 100 for sessions in (1, 8, 100)] == [True] * 3
