"""The gateway over fake sandboxes: statuses and sentences for good and bad requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from tests.waiting import GUARD_S

from cellwright.errors import UsageError
from cellwright.gateway import sessions
from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts, service_token
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.wire import CODE_BYTES

TOKEN = "t" * 40


@pytest.fixture
def app() -> FastAPI:
    pool = Pool(Spec(), capacity=2, backend=FakeBackend())
    return make_app(pool, token=TOKEN, hosts=own_hosts("127.0.0.1", 80) | {"127.0.0.1"})


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as client,
    ):
        yield client


def body(**changes: object) -> dict[str, object]:
    return {"session_id": "a", "language": "python", "code": "log(41 + 1)", **changes}


async def test_log_gives_exactly_one_item(client: httpx2.AsyncClient) -> None:
    response = await client.post("/execute", json=body())
    assert (response.status_code, response.json()) == (200, {"output": [{"type": "input_text", "text": "42"}]})


async def test_sessions_are_apart_and_persist(client: httpx2.AsyncClient) -> None:
    await client.post("/execute", json=body(code="x = 1"))
    same = await client.post("/execute", json=body(code="log(x)"))
    other = await client.post("/execute", json=body(session_id="b", code="log('x' in globals())"))
    assert same.json()["output"][0]["text"] == "1"
    assert other.json()["output"][0]["text"] == "False"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": b"{"}, 400),
        ({"content": b"\xff\xfe"}, 400),
        ({"content": b"[" * 100_000}, 400),
        ({"json": []}, 400),
        ({"json": {}}, 400),
        ({"json": body(code=1)}, 400),
        ({"json": body(session_id=7)}, 400),
        ({"json": body(language="cobol")}, 400),
        ({"json": body(session_id="x" * 300)}, 400),
        ({"json": body(session_id="../../x")}, 400),
        ({"json": body(session_id="")}, 400),
        ({"json": body(session_id="..")}, 400),
        ({"json": body(code="#" * 65 * 1024)}, 413),
        ({"content": b" " * 1024 * 1024}, 413),
        ({"json": body(), "headers": {"Authorization": ""}}, 401),
        ({"json": body(), "headers": {"Authorization": "Bearer " + "u" * 40}}, 401),
        ({"json": body(), "headers": {"Authorization": "Bearer tökén".encode()}}, 401),
        ({"json": body(), "headers": {"Origin": "https://example.com"}}, 403),
        ({"json": body(), "headers": {"Origin": "null"}}, 403),
        ({"json": body(), "headers": {"Host": "evil.example"}}, 403),
    ],
)
async def test_a_bad_request_gets_its_status_and_one_sentence(
    client: httpx2.AsyncClient, request_: dict[str, object], status: int
) -> None:
    response = await client.post("/execute", **request_)  # type: ignore[arg-type]
    assert response.status_code == status, response.text
    assert response.json()["error"].endswith((".", "`."))
    assert (await client.post("/execute", json=body())).status_code == 200


def _endless() -> AsyncIterator[bytes]:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(10_000):
            yield b" " * 65536
        raise AssertionError("The whole of it was read.")

    return chunks()


@pytest.mark.parametrize("path", ["/execute", "/v1/sessions", "/v1/sessions/a/cells", "/v1/sessions/a/interrupt"])
async def test_no_route_reads_a_body_without_end(client: httpx2.AsyncClient, path: str) -> None:
    await client.post("/execute", json=body())
    said = await client.post(path, content=b" " * 1024 * 1024)
    assert (said.status_code, "Nothing ran" in said.json()["error"]) == (413, True)
    if not path.endswith("interrupt"):  # which looks at none
        unsaid = await client.post(path, content=_endless(), headers={"Content-Type": "application/json"})
        assert (unsaid.status_code, "Nothing ran" in unsaid.json()["error"]) == (413, True)
        assert unsaid.json() == said.json()


@pytest.mark.parametrize("content", [b"x" * 4096, "unsaid"], ids=["said", "unsaid"])
async def test_a_file_that_is_too_large_is_told_so(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, content: bytes | str
) -> None:
    monkeypatch.setattr(sessions, "FILE_BYTES", 4095)
    await client.post("/v1/sessions", json={"session_id": "mine"})
    sent = content if isinstance(content, bytes) else _endless()
    response = await client.put("/v1/sessions/mine/files/a", content=sent)
    assert (response.status_code, response.json()["kind"]) == (413, "FileTooLarge")
    assert "The file has more than 512 MiB" in response.json()["error"]
    assert "Nothing was written. Send it in parts." in response.json()["error"]
    assert (await client.get("/v1/sessions/mine/files")).json() == []


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/nowhere", b"", 404),
        ("GET", "/execute", b"", 405),
        ("BREW", "/execute", b"", 405),
        ("POST", "/v1/sessions", b"{", 400),
        ("POST", "/v1/sessions", b"[" * 100_000, 400),
        ("POST", "/v1/sessions", b'{"cell_deadline_s":NaN}', 400),
        ("POST", "/v1/sessions", b'{"cell_deadline_s":1e400}', 400),
        ("POST", "/v1/sessions", b'{"width":' + b"9" * 5000 + b"}", 400),
        ("POST", "/v1/sessions", b'{"env":{"A":"\\u0000"}}', 400),
        ("POST", "/v1/sessions", b'{"env":{"":"x"}}', 400),
        ("POST", "/v1/sessions", b'{"env":{"A=B":"x"}}', 400),
        ("POST", "/v1/sessions", b'{"params":{"a-b":"x"}}', 400),
        ("POST", "/v1/sessions", b'{"params":{"a":"\\u0000"}}', 400),
        ("POST", "/v1/sessions", b'{"params":{"a":"\\ud800"}}', 400),
        ("POST", "/v1/sessions", b'{"params":{"a":1}}', 400),
        ("POST", "/v1/sessions", b'{"params":{"a":"' + b"x" * 20_000 + b'"}}', 400),
        ("POST", "/v1/sessions", b'{"env":{"A":"\\ud800"}}', 400),
        ("POST", "/v1/sessions", b'{"allow":["http://x/"]}', 400),
        ("POST", "/v1/sessions", b'{"session_id":"\\ud800"}', 400),
        ("POST", "/v1/sessions/a/cells", b'{"code":1}', 400),
        ("POST", "/v1/sessions/a/cells", b'{"code":"1","deadline_s":-1}', 400),
        ("POST", "/v1/sessions/a/restart?language=cobol", b"", 400),
        ("GET", "/v1/sessions/a/cells/0", b"", 404),
        ("GET", "/v1/sessions/a/cells/-1", b"", 404),
        ("GET", "/v1/sessions/a/cells/" + "9" * 400, b"", 404),
        ("GET", "/v1/sessions/a/cells/x", b"", 400),
        ("POST", "/v1/sessions", b'{"env":{"A":"' + b"x" * 70_000 + b'"}}', 400),
        ("GET", "/v1/sessions/a/files/..%2fscreen.png", b"", 400),
        ("GET", "/v1/sessions/a/files/b%2f.%2f..%2f..%2fready", b"", 400),
        ("DELETE", "/v1/sessions/a/files/..%2fx", b"", 400),
        ("PUT", "/v1/sessions/a/files/..%2fx", b"", 400),
        ("GET", "/v1/sessions/%ff%fe", b"", 404),
        ("DELETE", "/v1/sessions/%ff%fe", b"", 404),
    ],
)
async def test_every_refusal_is_a_status_and_one_sentence(
    client: httpx2.AsyncClient, method: str, path: str, content: bytes, status: int
) -> None:
    await client.post("/execute", json=body())
    headers = {"Content-Type": "application/json"}
    response = await client.request(method, path, content=content, headers=headers)
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error", "kind"}, response.text
    assert response.json()["error"].endswith((".", "`."))
    assert (await client.get("/v1/sessions")).json()[0]["executing"] is None


async def test_the_description_of_the_service_has_what_execute_reads(client: httpx2.AsyncClient) -> None:
    description = (await client.get("/openapi.json")).json()
    asked = description["paths"]["/execute"]["post"]["requestBody"]
    schema = asked["content"]["application/json"]["schema"]
    assert asked["required"] is True
    assert schema["required"] == ["session_id", "language", "code"]
    assert {name: (field["type"], field.get("enum")) for name, field in schema["properties"].items()} == {
        "session_id": ("string", None),
        "language": ("string", ["python", "javascript"]),
        "code": ("string", None),
    }
    assert schema["properties"]["code"]["description"] == f"At most {CODE_BYTES} bytes of UTF-8."
    assert re.fullmatch(schema["properties"]["session_id"]["pattern"], "../x") is None


async def test_the_description_of_the_service_says_how_each_route_refuses(client: httpx2.AsyncClient) -> None:
    description = (await client.get("/openapi.json")).json()
    refusal = {"$ref": "#/components/schemas/Refusal"}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            said = operation["responses"]
            is_open = path == "/health"
            assert ({"400", "401", "403", "413", "429"} <= said.keys()) == (not is_open), path
            assert ("422" in said, "500" in said, "security" in operation) == (False, False, not is_open), path
            bodies = [said[status]["content"]["application/json"]["schema"] for status in said if status >= "400"]
            assert bodies == [refusal] * len(bodies), path
            assert "Retry-After" in said["429"]["headers"], path
    assert description["components"]["schemas"]["Refusal"]["required"] == ["error", "kind"]


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/execute", "POST"),
        ("/health", "GET"),
        ("/v1/sessions", "GET, POST"),
        ("/v1/sessions/a", "DELETE, GET"),
        ("/v1/sessions/a/files/b", "DELETE, GET, PUT"),
    ],
)
async def test_a_method_that_a_path_has_not_is_told_which_it_has(
    client: httpx2.AsyncClient, path: str, allow: str
) -> None:
    response = await client.patch(path)
    assert (response.status_code, response.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"content": b"{"}, "it is not JSON"),
        ({"json": []}, "the body: Input should be a valid dictionary or instance of ExecuteRequest"),
        ({"json": {"language": "python"}}, "session_id: Field required"),
        ({"json": body(code=1)}, "code: Input should be a valid string"),
        ({"json": body(language="cobol")}, "language: Input should be 'python' or 'javascript'"),
    ],
)
async def test_execute_says_what_it_could_not_read(
    client: httpx2.AsyncClient, request_: dict[str, object], sentence: str
) -> None:
    response = await client.post("/execute", **request_)  # type: ignore[arg-type]
    assert response.json() == {
        "error": f"The request could not be read: {sentence}. Nothing ran.",
        "kind": "BadRequest",
    }


async def test_health_needs_no_token(client: httpx2.AsyncClient) -> None:
    response = await client.get("/health", headers={"Authorization": ""})
    said = {"ready": True, "language": "python", "session_bound": False}
    assert (response.status_code, response.json()) == (200, said)


async def test_two_calls_at_once_in_one_session_conflict(client: httpx2.AsyncClient) -> None:
    await client.post("/execute", json=body())
    slow = body(code="import time; time.sleep(0.05); log('slow')")
    both = await asyncio.gather(*(client.post("/execute", json=slow) for _ in range(2)))
    assert sorted(response.status_code for response in both) == [200, 409]


async def test_at_capacity_the_answer_is_429_with_a_time_to_wait(client: httpx2.AsyncClient) -> None:
    for session_id in ("a", "b"):
        await client.post("/execute", json=body(session_id=session_id))
    response = await client.post("/execute", json=body(session_id="c"))
    assert (response.status_code, response.headers["Retry-After"]) == (429, "10")


async def test_a_session_is_opened_used_shown_and_closed(client: httpx2.AsyncClient) -> None:
    opened = await client.post("/v1/sessions", json={"session_id": "mine", "width": 800, "height": 700})
    assert opened.status_code == 201
    cell = (await client.post("/v1/sessions/mine/cells", json={"code": "print('hi')"})).json()
    assert (cell["status"], cell["outputs"][0]["text"]) == ("ok", "hi\n")
    shown = (await client.get("/v1/sessions/mine/cells/1")).json()
    assert shown["outputs"] == cell["outputs"]
    (listed,) = (await client.get("/v1/sessions")).json()
    assert listed == {**opened.json(), "cells": 1, "idle_s": listed["idle_s"]}
    assert (opened.json()["cells"], opened.json()["opened_at"][-1]) == (0, "Z")
    png = (await client.get("/v1/sessions/mine/screen.png")).content
    assert int.from_bytes(png[16:20]) == 800
    assert (await client.delete("/v1/sessions/mine")).status_code == 204
    gone = await client.get("/v1/sessions/mine")
    assert gone.status_code == 404


async def test_a_cells_events_stream_and_end_with_the_cell(client: httpx2.AsyncClient) -> None:
    await client.post("/v1/sessions", json={"session_id": "mine"})
    response = await client.post(
        "/v1/sessions/mine/cells", json={"code": "log(1)"}, headers={"Accept": "application/x-ndjson"}
    )
    kinds = [line.split('"type":"')[1].split('"')[0] for line in response.text.splitlines()]
    assert kinds == ["output", "closed", "cell"]


async def test_a_stream_that_cannot_begin_is_an_error_of_the_request(client: httpx2.AsyncClient) -> None:
    await client.post("/v1/sessions", json={"session_id": "mine"})
    ndjson = {"Accept": "application/x-ndjson"}
    response = await client.post("/v1/sessions/mine/cells", json={"code": "#" * 65 * 1024}, headers=ndjson)
    assert (response.status_code, response.json()["kind"]) == (413, "CodeTooLarge")


async def test_a_reader_who_leaves_does_not_end_the_cell(app: FastAPI, client: httpx2.AsyncClient) -> None:
    await client.post("/v1/sessions", json={"session_id": "mine"})
    await read_one_line(app, "/v1/sessions/mine/cells", b'{"code":"import time; print(1); time.sleep(0.05); print(2)"}')
    async with asyncio.timeout(GUARD_S):
        while (cell := (await client.get("/v1/sessions/mine/cells/1")).json())["status"] == "running":
            pass
    assert (cell["status"], "".join(output["text"] for output in cell["outputs"])) == ("ok", "1\n2\n")


async def read_one_line(app: FastAPI, path: str, content: bytes) -> None:
    """Post as a client that reads the first line of the answer and leaves."""
    left = asyncio.Event()
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> dict[str, object]:
        if not messages:
            await left.wait()
            return {"type": "http.disconnect"}
        return messages.pop()

    async def send(message: MutableMapping[str, object]) -> None:
        if message.get("body"):
            left.set()

    headers = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1", "content-type": "application/json"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"accept", b"application/x-ndjson"), *((k.encode(), v.encode()) for k, v in headers.items())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)


async def test_code_with_half_a_character_is_answered_and_can_be_shown(client: httpx2.AsyncClient) -> None:
    response = await client.post("/execute", content=b'{"session_id":"a","language":"python","code":"\\udc00"}')
    (output,) = response.json()["output"]
    assert output["text"].startswith("The code was not executed: character 1 of line 1 is a lone surrogate (U+DC00)")
    shown = (await client.get("/v1/sessions/a/cells/1")).json()
    assert (shown["status"], shown["code"]) == ("error", "\ufffd")


async def test_files_go_in_and_out_by_http(client: httpx2.AsyncClient) -> None:
    await client.post("/v1/sessions", json={"session_id": "mine"})
    assert (await client.put("/v1/sessions/mine/files/a/b.txt", content=b"data")).status_code == 204
    assert (await client.get("/v1/sessions/mine/files/a/b.txt")).content == b"data"
    assert [file["path"] for file in (await client.get("/v1/sessions/mine/files")).json()] == ["a/b.txt"]
    assert (await client.delete("/v1/sessions/mine/files/a/b.txt")).status_code == 204
    assert (await client.get("/v1/sessions/mine/files/a/b.txt")).status_code == 404


async def test_unknown_fields_of_a_new_session_are_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/sessions", json={"files": ["/etc/passwd"]})
    assert (response.status_code, "files" in response.json()["error"]) == (400, True)


def test_a_token_is_made_once_and_only_this_user_may_read_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    kept = tmp_path / "state" / "token"
    token = service_token(None, kept)
    assert len(token) >= 32
    assert service_token(None, kept) == token
    assert kept.stat().st_mode & 0o777 == 0o600


def test_services_that_start_at_once_agree_on_the_token(tmp_path: Path) -> None:
    kept = tmp_path / "state" / "token"
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda _: service_token(None, kept), range(32)))
    assert tokens == {kept.read_text().strip()}
    assert [path.name for path in kept.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("left", [b"", b"short", b"\xff" * 40, b"with space " * 4])
def test_what_is_no_token_is_replaced(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "token").write_bytes(left)
    assert len(service_token(None, tmp_path / "token")) >= 32


@pytest.mark.parametrize("given", ["", "short", "\udcff" * 40, "x" * 40 + "\n", "with space " * 4])
def test_a_token_that_no_client_could_send_is_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(UsageError):
        service_token(given, tmp_path / "token")
