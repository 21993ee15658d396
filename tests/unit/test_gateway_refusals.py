"""What `/v1` says when it does not do what it was asked for: a status and a sentence, not a false success."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 40


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    app = make_app(Pool(Spec(), backend=FakeBackend()), token=TOKEN, hosts=own_hosts("127.0.0.1", 80) | {"127.0.0.1"})
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        await client.post("/v1/sessions", json={"session_id": "a", "width": 800})
        yield client


async def test_a_session_that_is_open_is_returned_with_200(client: httpx2.AsyncClient) -> None:
    for asked in ({"session_id": "a"}, {"session_id": "a", "width": 800}):
        again = await client.post("/v1/sessions", json=asked)
        assert (again.status_code, again.json()["session_id"]) == (200, "a")
    assert (await client.post("/v1/sessions", json={"session_id": "b"})).status_code == 201
    assert (await client.post("/v1/sessions")).status_code == 201


async def test_a_session_that_is_open_and_is_not_what_was_asked_for_is_409(client: httpx2.AsyncClient) -> None:
    asked = {"session_id": "a", "width": 900, "height": 1000, "allow": ["example.com"]}
    refused = await client.post("/v1/sessions", json=asked)
    assert (refused.status_code, refused.json()) == (
        409,
        {
            "error": "Session 'a' is open, and has another width and another allow than was asked for. Nothing was changed. "
            "Ask for what it has, or for nothing; close it first; or open one with another id.",
            "kind": "SessionDiffers",
        },
    )


async def test_a_session_that_was_closed_is_opened_anew_with_201(client: httpx2.AsyncClient) -> None:
    await client.delete("/v1/sessions/a")
    assert (await client.post("/v1/sessions", json={"session_id": "a", "width": 900})).status_code == 201


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_path_that_names_a_folder_is_refused_in_words(client: httpx2.AsyncClient, method: str) -> None:
    refused = await client.request(method, "/v1/sessions/a/files/d/", content=b"x")
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "'d/' names a folder, by the slash at its end, and a file was meant. Nothing was done.",
    )
    assert (await client.get("/v1/sessions/a/files")).json() == []


async def test_what_the_inside_refuses_is_told_as_a_sentence(client: httpx2.AsyncClient) -> None:
    missing = await client.get("/v1/sessions/a/files/none")
    assert missing.json()["error"] == "There is no file there in the sandbox: no such file"
