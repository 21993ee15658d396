"""Requests to the files API made up by the hundred, through the gateway to a home: each is done or refused in words.

What a client asks for is a path of bytes, percent-encoded or not; what lies below the home is links, folders and files.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import cast
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.door import Inside, door

pytestmark = pytest.mark.slow

TOKEN = "t" * 40
PARTS = st.one_of(
    st.sampled_from(
        [
            "a",
            "b",
            "..",
            ".",
            "",
            "/",
            "%",
            "%2f",
            "%2e%2e",
            "%00",
            "%ff",
            "%0a",
            "?",
            "#",
            ";",
            "\\",
            "link",
            "x" * 256,
        ]
    ),
    st.binary(min_size=1, max_size=8).map(quote),
    st.text(max_size=4).map(lambda text: quote(text, safe="", errors="replace")),
)
PATHS = st.lists(PARTS, max_size=5).map("/".join) | st.lists(PARTS, max_size=5).map("".join)
ASKED = st.lists(
    st.tuples(st.sampled_from(["GET", "PUT", "DELETE", "HEAD", "LIST"]), PATHS, st.binary(max_size=40)), max_size=12
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(ASKED)
def test_whatever_is_asked_of_the_files_is_done_or_refused_in_words(asked: list[tuple[str, str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, outside = Path(folder, "home"), Path(folder, "outside")
        (home / "a").mkdir(parents=True)
        outside.mkdir()
        (outside / "x").write_text("outside")
        (home / "link").symlink_to(outside)
        (home / "file").symlink_to(outside / "x")
        asyncio.run(play(home, asked))
        assert [path.name for path in Path(folder).rglob("*") if home not in (path, *path.parents)] == ["outside", "x"]
        assert (outside / "x").read_text() == "outside"


async def play(home: Path, asked: list[tuple[str, str, bytes]]) -> None:
    backend = FakeBackend()
    app = make_app(Pool(Spec(), capacity=1, backend=backend), token=TOKEN, hosts=own_hosts("127.0.0.1", 80))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            headers={"Authorization": f"Bearer {TOKEN}", "Host": "127.0.0.1:80"},
        ) as client,
    ):
        at = "http://127.0.0.1/v1/sessions"
        assert (await client.post(at, json={"session_id": "s"})).status_code == 201
        own, transport = backend.made[0].door, backend.made[0].door._transport
        own._transport = httpx2.ASGITransport(app=door(cast("Inside", None), home))
        for method, path, body in asked:
            await check(client, method, path.encode(), body)
        assert (await client.put(f"{at}/s/files/after", content=b"still")).status_code == 204
        assert (await client.get(f"{at}/s/files/after")).content == b"still"
        own._transport = transport  # what is not files is the fake's


async def check(client: httpx2.AsyncClient, method: str, path: bytes, body: bytes) -> None:
    raw = b"/v1/sessions/s/files" + (b"?path=" if method == "LIST" else b"/") + path
    url = httpx2.URL("http://127.0.0.1:80/").copy_with(raw_path=raw.replace(b"#", b"%23"))
    response = await client.request(method.replace("LIST", "GET"), url, content=body if method == "PUT" else None)
    assert response.status_code < 500, (method, raw, response.text)
    assert b"outside" not in response.content, (method, raw)
    if response.status_code >= 400 and method != "HEAD":
        assert response.json()["error"], (method, raw)
