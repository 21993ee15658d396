"""A file with the value of a secret in it leaves the sandbox for whoever asks for that, and for nobody else."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from cellwright.errors import HoldsSecret
from cellwright.gateway.app import make_app
from cellwright.pool import Pool
from cellwright.record.reader import read_run
from cellwright.record.records import Note
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.secrets import Hider
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

VALUE = 'Grüße/and "more" 7'
SPEC = Spec(secrets=(SecretSpec(name="KEY"),))
NOISE = random.Random(1).randbytes(3_000_000)  # noqa: S311 - the same each time
HOLDING = (
    ("as it is", VALUE.encode()),
    ("in a line of text", f"a\nkey = {VALUE}\nb".encode()),
    ("in a URL", quote(VALUE, safe="").encode()),
    ("in JSON", json.dumps({"key": VALUE}).encode()),
    ("in base64", base64.b64encode(f"user:{VALUE}".encode())),
    ("in wrapped base64", base64.encodebytes(b"x" * 50 + VALUE.encode() * 3)),
    ("in hexadecimal", VALUE.encode().hex().encode()),
    ("in a file of bytes", NOISE + VALUE.encode() + NOISE),
    *((f"{before} bytes before a mebibyte", b"\0" * (1024**2 - before) + VALUE.encode()) for before in (1, 5, 19)),
)
FREE = (
    ("nothing", b""),
    ("bytes", NOISE),
    ("a part of it", VALUE[:-1].encode()),
    ("it turned around", VALUE[::-1].encode()),
)


@pytest.mark.parametrize("data", [pytest.param(data, id=how) for how, data in HOLDING])
def test_a_value_is_found_in_a_file(data: bytes) -> None:
    assert Hider({"OTHER": "something else", "KEY": VALUE}).said_in(data) == "KEY"


@pytest.mark.parametrize("data", [pytest.param(data, id=how) for how, data in FREE])
def test_a_file_without_one_is_free(data: bytes) -> None:
    assert Hider({"KEY": VALUE}).said_in(data) is None
    assert Hider({}).said_in(data) is None


async def test_a_file_with_a_value_is_given_to_who_asks_for_that_alone() -> None:
    async with Session.open(SPEC, backend=FakeBackend(), secrets={"KEY": VALUE}) as session:
        await session.write_file("notes.txt", f"key = {VALUE}".encode())
        await session.write_file("fine.txt", b"fine")
        with pytest.raises(HoldsSecret) as refused:
            await session.read_file("notes.txt")
        assert str(refused.value) == (
            "The file notes.txt holds the value of the secret KEY. Usually the model's code wrote it there. It was not given, and "
            "stays where it is. Ask for it with `with_secrets` to have it as it is."
        )
        assert await session.read_file("notes.txt", with_secrets=True) == f"key = {VALUE}".encode()
        assert await session.read_file("fine.txt") == b"fine"


async def test_the_service_refuses_it_in_the_same_words(tmp_path: Path) -> None:
    pool = Pool(SPEC, backend=FakeBackend(), runs=tmp_path, secrets={"KEY": VALUE})
    app = make_app(pool, token="t" * 32, hosts=frozenset({"127.0.0.1"}))
    transport, headers = httpx2.ASGITransport(app=app), {"Authorization": f"Bearer {'t' * 32}"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        assert (await client.post("/v1/sessions", json={"session_id": "one"})).json()["secrets"] == ["KEY"]
        file = "/v1/sessions/one/files/notes.txt"
        assert (await client.put(file, content=VALUE.encode())).status_code == 204
        refused = await client.get(file)
        assert refused.status_code == 409
        assert "notes.txt holds the value of the secret KEY" in refused.text
        assert (await client.get(file, params={"with_secrets": "true"})).content == VALUE.encode()


async def test_what_is_copied_out_at_the_end_is_whole_and_the_run_says_what_it_holds(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"out": tmp_path / "out"})
    async with Session.open(spec, backend=FakeBackend(), secrets={"KEY": VALUE}) as session:
        await session.write_file("notes.txt", f"key = {VALUE}".encode())
        await session.write_file("fine.txt", b"fine")
    assert (tmp_path / "out" / "notes.txt").read_bytes() == f"key = {VALUE}".encode()
    notes = [line.record for line in read_run(session.run_dir).lines if isinstance(line.record, Note)]
    assert [note.text for note in notes if note.topic == "secrets"] == [
        "notes.txt was copied out and holds the value of the secret KEY."
    ]
