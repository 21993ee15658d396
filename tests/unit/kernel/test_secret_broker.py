"""The secrets' place in the kernel host: who asks is answered, whatever the outside says or does not."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellwright_kernel.python import secrets as python_secrets
from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.python.secrets import BothSecrets
from cellwright_kernel.secrets import broker
from cellwright_kernel.secrets.broker import SecretBroker
from cellwright_kernel.secrets.errors import SecretError
from cellwright_kernel.secrets.secrets import WHERE, Secrets, refuse_encrypted, refuse_placeholder
from cellwright_kernel.secrets.typist import Typist
from cellwright_kernel.wire import SecretAnswer, SecretAskedEvent


@asynccontextmanager
async def kept(
    folder: Path, *answers: SecretAnswer | None, runs: bool = True, typist: Typist | None = None
) -> AsyncIterator[list[SecretAskedEvent]]:
    """A broker whose outside answers in order, or not at all."""
    asked: list[SecretAskedEvent] = []
    to_come = list(answers)

    def ask(event: SecretAskedEvent) -> bool:
        asked.append(event)
        said = to_come.pop(0) if to_come else None
        if said is not None:
            asyncio.get_running_loop().call_soon(one.answer, event.number, said)
        return runs

    one = SecretBroker(folder / "secrets", ("KEY",), ask, typist)
    await one.start()
    try:
        yield asked
    finally:
        await one.stop()


async def told(use: str, name: object) -> str:
    """What the cell is told: a text, or the error's message."""
    secrets = Secrets()

    def call() -> str:
        try:
            return str(getattr(secrets, use)(name))
        except SecretError as error:
            return f"{error}"

    return await asyncio.to_thread(call)


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(WHERE, str(tmp_path / "secrets"))
    return tmp_path


async def test_a_placeholder_is_what_the_outside_says(tmp_path: Path) -> None:
    async with kept(
        tmp_path, SecretAnswer(text="CellwrightSecret_KEY_1"), SecretAnswer(refused="It is bound to no host.")
    ) as asked:
        assert await told("header", "KEY") == "CellwrightSecret_KEY_1"
        assert await told("header", "KEY") == "It is bound to no host."
    assert [(one.number, one.use, one.name, one.url) for one in asked] == [
        (1, "header", "KEY", None),
        (2, "header", "KEY", None),
    ]


async def test_an_unknown_name_is_asked_of_nobody(tmp_path: Path) -> None:
    async with kept(tmp_path) as asked:
        assert (await told("header", "NO")).startswith("There is no secret 'NO' in this session; there are: KEY.")
        assert (await told("type", "\ud800")).startswith("There is no secret '?' in this session")
    assert asked == []


async def test_without_a_desktop_nothing_can_be_typed(tmp_path: Path) -> None:
    async with kept(tmp_path) as asked:
        assert await told("type", "KEY") == "There is no desktop in this session, so nothing can be typed."
    assert asked == []


async def test_between_cells_and_when_the_outside_is_silent_the_wait_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_ANSWER_S", 0.05)
    async with kept(tmp_path, runs=False):
        assert "A secret is used while a cell runs, and none does." in await told("header", "KEY")
    async with kept(tmp_path):
        assert await told("header", "KEY") == "The outside did not answer. Nothing was typed or given. Try again."


async def test_what_is_no_request_is_refused_and_the_next_one_answered(tmp_path: Path) -> None:
    async with kept(tmp_path, SecretAnswer(text="it")):
        for line in (
            b"\n",
            b"[]\n",
            b"{}\n",
            b'{"use": "steal", "name": "KEY"}\n',
            b'{"use": "type", "name": 3}\n',
            b"x" * 100_000 + b"\n",
        ):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "secrets")
            writer.write(line)
            answer = await reader.readline()
            assert not answer or "This is no request for a secret" in json.loads(answer)["error"]
            writer.close()
        assert await told("header", "KEY") == "it"


async def test_an_answer_that_nobody_waits_for_is_not_taken(tmp_path: Path) -> None:
    one = SecretBroker(tmp_path / "other", ("KEY",), lambda _: True, None)
    assert one.answer(7, SecretAnswer(text="late")) is False


def test_a_session_without_secrets_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHERE)
    with pytest.raises(SecretError, match="This session has no secrets"):
        Secrets().header("KEY")
    with pytest.raises(TypeError, match="A secret is named by a str, not int"):
        Secrets().header(3)  # type: ignore[arg-type]


def test_pythons_own_module_and_ours_are_one() -> None:
    module = types.ModuleType("secrets")
    python_secrets._offer(module)
    assert (module.type.__func__, module.header.__func__) == (Secrets.type, Secrets.header)
    assert len(BothSecrets().token_hex(4)) == 8
    assert repr(BothSecrets()) == "<secrets: type(name), header(name)>"


def test_what_stands_for_a_secret_is_neither_typed_nor_encrypted() -> None:
    refuse_placeholder("CellwrightSecre")
    refuse_encrypted(b"Bearer token")
    with pytest.raises(SecretError, match="Use `secrets"):
        refuse_placeholder("a CellwrightSecret_KEY_12")
    with pytest.raises(SecretError, match="Write http://HOST:443/ instead"):
        refuse_encrypted(b"Bearer CellwrightSecret_KEY_12")


def test_what_pythons_clients_encrypt_is_looked_at_and_the_rest_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import http.client

    monkeypatch.setattr(http.client.HTTPConnection, "putheader", http.client.HTTPConnection.putheader)
    assert sys.modules["http.client"] is http.client
    python_secrets._encrypt_no_placeholder(http.client)
    plain, encrypted = http.client.HTTPConnection("example.com"), http.client.HTTPSConnection("example.com")
    for connection in (plain, encrypted):
        connection.putrequest("GET", "/")
        connection.putheader("X-Length", 3, b"four")
    plain.putheader("X-Key", "CellwrightSecret_KEY_12")
    with pytest.raises(SecretError, match="Nothing was sent"):
        encrypted.putheader("X-Key", "CellwrightSecret_KEY_12")


def test_nothing_is_changed_where_there_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    import http.client

    monkeypatch.delenv(WHERE)
    before = http.client.HTTPConnection.putheader
    python_secrets.prepare_secrets(AfterImport())
    assert http.client.HTTPConnection.putheader is before
