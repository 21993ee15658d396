"""The sandbox image alone: the guide's `POST /execute` and `GET /health` for one session, without a gateway and without a journal.

Flows in: a client's requests, on port 8080 of a container. Flows out: what the gateway would answer, by the same `answer`. Decided
here: the first session id that comes is the only one; a cell has 24 s, and no words for more; the container ends when its kernel
host does. This runs beside the model's code and as the same user, so it holds nothing worth taking: what isolates is whatever
the container was started with, and a token keeps out who else can reach the port, not the code inside.

It runs with what the inside's runtime has: of the rest of the outside it needs nothing but `answer`.
"""

from __future__ import annotations

import asyncio
import ctypes
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, Literal

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from cellwright.answer import InputItem, answer, said
from cellwright_kernel.wire import (
    CODE_BYTES,
    EVENT,
    POST_BYTES,
    Cell,
    ClosedEvent,
    Execute,
    HostSettings,
    Output,
    gather,
    in_order,
)

PORT: Final = 8080
TOKEN: Final = "CELLWRIGHT_TOKEN"  # noqa: S105 - the variable's name
_LEAST_TOKEN: Final = 32
_BROWSER_FOLDER: Final = "/run/browser"
"""Chromium's own, if the container has it."""
_DEADLINE_S: Final = 24.0
_ANSWER_S: Final = 28.0
"""Seconds within which every call is answered: the guide's clients give up after 30."""


class _Asked(BaseModel):
    """The body of `POST /execute`."""

    model_config = ConfigDict(strict=True)

    session_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    language: Literal["python", "javascript"]
    code: str


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def main() -> None:
    """Serve until told to stop, or until the kernel host has ended."""
    _keep_to_itself()
    token = os.environ.pop(TOKEN, "")  # no kernel inherits it
    if token and len(token) < _LEAST_TOKEN:
        sys.exit(f"{TOKEN} has {len(token)} characters; it must have {_LEAST_TOKEN} at least. Nothing was started.")
    with tempfile.TemporaryDirectory(prefix="door-") as folder:
        path = f"{folder}/door"
        with _kernel_host(path) as host:
            uvicorn.run(_app(_One(path, token, host)), host="0.0.0.0", port=PORT, log_level="warning")  # noqa: S104 - a container's


def _kernel_host(path: str) -> subprocess.Popen[bytes]:
    """Start the kernel host; it ends when its standard input is closed."""
    own_sandbox = _has_namespaces()
    if not own_sandbox:
        print(  # noqa: T201 - the container's log
            "No namespaces can be made here, so Chromium runs without its own sandbox. With `--security-opt "
            "seccomp=seccomp.json`, the file beside the Containerfile, it has it.",
            flush=True,
        )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        door = listener.fileno()
        browser_folder = _BROWSER_FOLDER if os.path.ismount(_BROWSER_FOLDER) else None
        settings = HostSettings(door=f"fd:{door}", chromium_sandbox=own_sandbox, browser_folder=browser_folder)
        command = [sys.executable, "-P", "-m", "cellwright_kernel", "--settings", settings.model_dump_json()]
        # without what names this file's own place: kernels would inherit it
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[door], env=environment)


def _keep_to_itself() -> None:
    """Close this process to others of its user: the environment that it was started with has the token in it."""
    pr_set_dumpable = 4
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def _has_namespaces() -> bool:
    """Return whether Chromium's own sandbox can be made: namespaces, and a root of its own in one of them."""
    words = "--user --map-root-user --pid --net --fork --root=/proc/self/fdinfo -- /no/such/program".split()
    tried = subprocess.run(["/usr/bin/unshare", *words], check=False, capture_output=True)
    return b"failed to execute" in tried.stderr  # all else was done before that


class _One:
    """The one session."""

    def __init__(self, path: str, token: str, host: subprocess.Popen[bytes]) -> None:
        self._path = path
        self._token = token
        self.host = host
        self._session_id: str | None = None
        self._number = 0
        self._executing = asyncio.Lock()

    async def execute(self, request: Request) -> JSONResponse:
        arrived = time.monotonic()
        try:
            asked = await self._asked(request)
            async with self._executing:
                try:
                    async with asyncio.timeout(_ANSWER_S):
                        items = await asyncio.to_thread(self._executed, asked, arrived)
                except TimeoutError:
                    self.host.kill()
                    items = [said("The kernel host does not answer any more. This sandbox has ended.")]
        except _Refused as error:
            return JSONResponse({"error": str(error)}, status_code=error.status)
        return JSONResponse({"output": items})

    async def health(self, _: Request) -> JSONResponse:
        is_ready = await asyncio.to_thread(self._is_ready, 0.1)
        told = {"ready": is_ready, "language": "python", "session_bound": self._session_id is not None}
        return JSONResponse(told, status_code=200 if is_ready else 503)

    async def _asked(self, request: Request) -> _Asked:
        if "origin" in request.headers:
            raise _Refused(403, "Requests from web pages are refused.")
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._token and not secrets.compare_digest(given.encode(), self._token.encode()):
            raise _Refused(401, "The request carries no valid token. Nothing ran.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > POST_BYTES:
                raise _Refused(413, f"The request is larger than {POST_BYTES} bytes. Nothing ran.")
        try:
            asked = _Asked.model_validate(json.loads(body))
        except (ValueError, RecursionError) as error:
            why = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else "it is not JSON"
            raise _Refused(400, f"The request could not be read: {why}. Nothing ran.") from None
        if len(asked.code.encode("utf-8", "surrogatepass")) > CODE_BYTES:
            raise _Refused(413, f"The code is larger than the {CODE_BYTES} bytes that a cell may have. Nothing ran.")
        if self._executing.locked():
            raise _Refused(409, "The session is executing another cell. Nothing ran.")
        if asked.session_id != (self._session_id or asked.session_id):
            raise _Refused(409, "This container serves one session, and it has another id. Nothing ran.")
        self._session_id = asked.session_id
        return asked

    def _executed(self, asked: _Asked, arrived: float) -> Sequence[InputItem]:
        if not self._is_ready(max(0.1, arrived + _DEADLINE_S - time.monotonic())):
            return [said("The sandbox is still starting. Nothing ran. Make the same call again.")]
        self._number += 1
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        cell = Cell(number=self._number, language=asked.language, code=asked.code, started_at=started)
        left_s = max(0.1, arrived + _DEADLINE_S - time.monotonic())
        execute = Execute(
            number=cell.number,
            language=asked.language,
            code=asked.code,
            deadline_s=left_s,
            waited_s=_ANSWER_S - _DEADLINE_S,
        )
        outputs: dict[int, Output] = {}
        for line in self._lines("POST", "/cells", execute.model_dump_json()):
            event = EVENT.validate_json(line)
            gather(outputs, event)
            if isinstance(event, ClosedEvent):
                cell = cell.model_copy(update={"status": event.status, "truncated": event.truncated})
        if cell.status == "running":
            cell = cell.model_copy(update={"status": "sandbox_lost"})
        return answer(cell.model_copy(update={"outputs": in_order(outputs)}))

    def _is_ready(self, timeout_s: float) -> bool:
        lines = self._lines("GET", f"/ready?timeout_s={timeout_s:.1f}")
        return bool(lines) and json.loads(lines[0]).get("ready") is True

    def _lines(self, method: str, target: str, body: str | None = None) -> list[bytes]:
        """Return the lines of an answer; none where the kernel host is gone or refuses."""
        connection = _Unix(self._path)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            return response.read().splitlines() if response.status == http.client.OK else []
        except (OSError, http.client.HTTPException):
            return []
        finally:
            connection.close()


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("sandbox", timeout=_ANSWER_S)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._socket_path)


def _app(one: _One) -> Starlette:
    @asynccontextmanager
    async def while_the_host_lives(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_end_with(one.host))
            yield
            watching.cancel()

    routes = [Route("/execute", one.execute, methods=["POST"]), Route("/health", one.health)]
    return Starlette(routes=routes, lifespan=while_the_host_lives)


async def _end_with(host: subprocess.Popen[bytes]) -> None:
    """End this process when the kernel host has; nothing else would tell whoever runs the container."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(host.pid)  # not a thread that waits: it would do so in vain when we are stopped
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
    print(f"The kernel host ended with status {host.wait()}; so does this container.", flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
