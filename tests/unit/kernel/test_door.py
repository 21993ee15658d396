"""The door, without a kernel behind it: refusals, bounds, files, screen."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from cellwright_kernel.child import NotUp
from cellwright_kernel.door import door
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Execute, Ready


class Inside:
    def __init__(self, home: Path) -> None:
        self.kernels = Kernels(str(home), home / "kernels", dict, commands={"python": ()})
        self.waited_s: list[float] = []
        self.pixels: str | None = "0" * 64
        self.left = {7: "e" * 64}

    async def ready(self, timeout_s: float) -> Ready:
        self.waited_s.append(timeout_s)
        return Ready(ready=False, missing=("There is no display.",))

    async def screenshot(self, *, left_by: int | None) -> SimpleNamespace:
        if self.pixels is None:
            raise NotUp("The display is gone.")
        pixels = self.pixels if left_by is None else self.left[left_by]
        return SimpleNamespace(png=b"PNG " + pixels.encode(), pixels_sha256=pixels)


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path)


@pytest.fixture
async def client(inside: Inside, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=door(inside, tmp_path))
    async with httpx2.AsyncClient(transport=transport, base_url="http://inside") as client:
        yield client


def cell(**changes: object) -> bytes:
    fields = {"number": 1, "language": "python", "code": "1", "deadline_s": 1.0, **changes}
    return Execute.model_construct(**fields).model_dump_json(warnings=False).encode()


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "The request is no cell: : Invalid JSON"),
        (b"[]", 400, "The request is no cell: "),
        (cell(language="cobol"), 400, "The request is no cell: language: Input should be 'python' or 'javascript'."),
        (cell(deadline_s="soon"), 400, "The request is no cell: deadline_s: "),
        (cell(extra=1)[:-1] + b',"extra":1}', 400, "The request is no cell: extra: Extra inputs are not permitted."),
        (cell(language="javascript"), 400, "There is no javascript kernel here. Nothing was executed. Use python."),
        (cell(code="x" * 65_537), 413, "The code is larger than 65,536 bytes. Nothing was executed."),
        (cell(code="é" * 32_769), 413, "The code is larger than 65,536 bytes. Nothing was executed."),
        (b" " * 500_000, 413, "The request is larger than 397,312 bytes. Nothing was executed."),
    ],
)
async def test_a_request_that_is_no_cell_is_refused_with_a_sentence(client, body, status, sentence):
    response = await client.post("/cells", content=body)
    assert (response.status_code, list(response.json())) == (status, ["error"])
    assert response.json()["error"].startswith(sentence)


@pytest.mark.parametrize("what", ["interrupt", "restart"])
async def test_an_unknown_language_has_no_kernel(client, what):
    response = await client.post(f"/kernels/cobol/{what}")
    assert (response.status_code, response.json()) == (
        400,
        {"error": "There is no cobol kernel here. Nothing was executed. Use python."},
    )


async def test_interrupting_nothing_is_said(client):
    assert (await client.post("/kernels/python/interrupt")).json() == {"interrupted": False}


async def test_ready_waits_as_long_as_it_is_asked_to_within_bounds(client, inside):
    for query in ("?timeout_s=1.5", "?timeout_s=-1", "?timeout_s=1e9", ""):
        response = await client.get(f"/ready{query}")
        assert Ready.model_validate_json(response.content) == Ready(ready=False, missing=("There is no display.",))
    assert inside.waited_s == [1.5, 0.0, 120.0, 30.0]
    assert (await client.get("/ready?timeout_s=soon")).status_code == 400


async def test_the_screen_has_its_pixels_as_tag(client, inside):
    first = await client.get("/screen.png")
    assert (first.status_code, first.headers["content-type"], first.content[:3]) == (200, "image/png", b"PNG")
    tag = first.headers["etag"]
    assert tag == f'"{inside.pixels}"'
    same = await client.get("/screen.png", headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    inside.pixels = "1" * 64
    assert (await client.get("/screen.png", headers={"If-None-Match": tag})).status_code == 200


async def test_the_screen_can_be_had_as_a_cell_left_it(client, inside):
    assert (await client.get("/screen.png?cell=7")).headers["etag"] == f'"{inside.left[7]}"'
    assert (await client.get("/screen.png?cell=seven")).headers["etag"] == f'"{inside.pixels}"'


async def test_a_lost_display_is_said(client, inside):
    inside.pixels = None
    response = await client.get("/screen.png")
    assert (response.status_code, response.json()) == (503, {"error": "The display is gone."})


async def test_a_file_is_written_listed_read_and_deleted(client):
    assert (await client.put("/files/a%20b/c.bin", content=b"\0\1\2")).json() == {"size_bytes": 3}
    assert [(info["path"], info["size_bytes"]) for info in (await client.get("/files")).json()] == [("a b/c.bin", 3)]
    response = await client.get("/files/a%20b/c.bin")
    assert (response.content, response.headers["content-length"]) == (b"\0\1\2", "3")
    assert (await client.delete("/files/a%20b/c.bin")).status_code == 204
    assert (await client.get("/files/a%20b/c.bin")).status_code == 404


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["%2e%2e/secret", "/etc/passwd", "link", "a/%2e%2e/%2e%2e/secret"])
async def test_a_path_out_of_home_is_refused(client, tmp_path, method, path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    response = await client.request(method, f"/files/{path}", content=b"x")
    if (method, path) == ("DELETE", "link"):
        assert response.status_code == 204  # the link itself
    else:
        assert (response.status_code, list(response.json())) == (400, ["error"])


async def test_what_is_not_offered_is_said_in_json(client):
    response = await client.get("/nothing")
    assert (response.status_code, response.json()) == (404, {"error": "Not Found"})
