"""The way into a sandbox: HTTP to the kernel host, over whatever socket the backend made.

Flows in: requests of the session. Flows out: events and answers of the kernel host, each checked against the wire
types before anyone sees it. Decided here: how large a screenshot and a file from inside may be, how long its silence is
believed and how long an answer may take in all, however it drips, and that no answer in order means the sandbox is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx2

from cellwright.errors import BadPath, FileMissing, KernelEnded, SandboxLost, UsageError
from cellwright.sandbox.bodies import bounded, cell_events, checked, checked_files, limited
from cellwright.sandbox.refusals import raise_refusal, sentence_of
from cellwright.sandbox.tunnel import Tunnel, TunnelRefused, open_tunnel
from cellwright.sandbox.unix_transport import UnixTransport
from cellwright.secrets import NONE, Secrets
from cellwright.secrets.events import without_values
from cellwright_kernel.wire import (
    Channel,
    ClosedEvent,
    Event,
    Execute,
    FileInfo,
    KernelConnection,
    Language,
    PictureDifference,
    PicturePair,
    Ready,
    SecretAnswer,
)
from cellwright_kernel.wire_people import PersonAnswer

SILENCE_S: Final = 5.0
"""Seconds without any event, heartbeats included, after which the kernel host counts as gone."""
ANSWER_S: Final = 10.0
"""Seconds that an ordinary answer may take from first to last; a cell has its own end, and the session sees to it."""
LATE_S: Final = 3.0
"""Seconds that a session which closes waits for what came late; a millisecond is usual."""
SO_FAR_S: Final = 1.5
"""Seconds that whoever is owed an answer waits for what a running cell has shown; a millisecond is usual."""
RESTART_S: Final = 25.0
PICTURES_S: Final = 20.0
"""Seconds that a comparison of two pictures may take; of two screens, 0.1."""
FILE_S: Final = 60.0
"""Seconds that a file or a listing may take; 512 MiB need three."""
FILE_BYTES: Final = 512 * 1024**2
PATH_CHARS: Final = 4096
"""Longest path below the sandbox's home, as the Linux kernel has it; a kernel host may list longer ones."""
SCREEN_BYTES: Final = 64 * 1024**2

_PNG: Final = b"\x89PNG\r\n\x1a\n"


class Door:
    """One kernel host's door.

    Args:
        transport: An httpx2 transport that leads to the kernel host, and to nothing else.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        # no client around it: what the inside sets (cookies) or says (go elsewhere) would be heeded by one
        self._transport = transport
        self._is_closed = False
        self._socket_path: Path | None = None
        self.secrets: Secrets = NONE
        """Whose values nothing that comes out here may hold: no event, no name of a file and no word of an error. What is
        in a file, a screenshot or a tunnel is as it is."""

    @classmethod
    def at(cls, socket_path: Path) -> Door:
        """Return the door behind a Unix socket."""
        door = cls(UnixTransport(socket_path))
        door._socket_path = socket_path
        return door

    async def close(self) -> None:
        """Give the connections back."""
        self._is_closed = True
        await self._transport.aclose()

    async def ready(self, timeout_s: float) -> Ready:
        """Wait until the inside is usable or has failed.

        Raises:
            SandboxLost: The kernel host gave no answer in time.
        """
        params = {"timeout_s": str(timeout_s)}
        silence_s = timeout_s + SILENCE_S
        async with self.request("GET", "/ready", params=params, silence_s=silence_s, whole_s=silence_s) as response:
            return checked(Ready, await bounded(response, 1024**2))

    async def execute(self, request: Execute) -> AsyncIterator[Event]:
        """Post a cell and yield its events as they arrive; the last one is a `ClosedEvent`.

        Raises:
            SandboxLost: The stream broke off, fell silent, or said what no kernel host says.
        """
        body = request.model_dump_json().encode()
        async with self.request("POST", "/cells", content=body, whole_s=None, may_refuse=False) as response:
            async for event in self._events(response):
                yield event

    async def so_far(self) -> AsyncIterator[Event]:
        """Yield what the running cell has shown so far, as events of a cell that is never closed; nothing where none runs.

        Raises:
            SandboxLost: As with `execute`, or it took too long.
        """
        async with self.request("GET", "/cells/running", whole_s=SO_FAR_S, may_refuse=False) as response:
            async for event in self._events(response, is_unfinished=True):
                if not isinstance(event, ClosedEvent):
                    yield event

    async def late(self) -> AsyncIterator[Event]:
        """Yield what has come since the last cells, as events of a cell; once, then the kernel host has it no more.

        Raises:
            SandboxLost: As with `execute`, or it took too long.
        """
        async with self.request("GET", "/late", whole_s=LATE_S, may_refuse=False) as response:
            async for event in self._events(response):
                yield event

    async def answer(self, number: int, said: SecretAnswer | PersonAnswer) -> None:
        """Answer a cell that asked for a secret, which is typed, or given, after this has returned; or that asked a person."""
        path = f"/{'secrets' if isinstance(said, SecretAnswer) else 'questions'}/{number}"
        content = said.model_dump_json().encode()
        with suppress(FileMissing):  # whoever asked has given up
            async with self.request("POST", path, content=content, whole_s=ANSWER_S) as response:
                await bounded(response, 4096)

    async def interrupt(self, language: Language, number: int | None = None) -> None:
        """Ask the kernel to stop its cell and keep its variables.

        Args:
            language: Whose kernel.
            number: Which cell is meant, also if it is still on its way; absent: the one that runs.
        """
        params = None if number is None else {"cell": str(number)}
        path = f"/kernels/{language}/interrupt"
        async with self.request("POST", path, params=params, whole_s=ANSWER_S) as response:
            await bounded(response, 4096)

    async def restart(self, language: Language) -> None:
        """Replace the kernel; its variables are gone, files and desktop stay."""
        path = f"/kernels/{language}/restart"
        async with self.request("POST", path, silence_s=RESTART_S, whole_s=RESTART_S) as response:
            await bounded(response, 4096)

    async def connection(self, language: Language) -> KernelConnection:
        """Return what a Jupyter client must know of a kernel, which is started if there is none."""
        path = f"/kernels/{language}/connection"
        async with self.request("GET", path, silence_s=RESTART_S, whole_s=RESTART_S) as response:
            return checked(KernelConnection, await bounded(response, 4096))

    @asynccontextmanager
    async def tunnel(
        self, language: Language, channel: Channel, kernel_id: str, on_send: Callable[[], None]
    ) -> AsyncIterator[Tunnel]:
        """Open a tunnel to one socket of the kernel of this id, and close it at the end.

        Raises:
            KernelEnded: That kernel is not there any more.
            UsageError: This sandbox's door has no tunnels.
            SandboxLost: The kernel host did not open it.
        """
        if self._socket_path is None:
            raise UsageError("The kernels of this kind of sandbox cannot be attached to. Nothing was done.")
        url = f"ws://sandbox/kernels/{language}/{channel}?kernel_id={quote(kernel_id)}"
        try:
            async with open_tunnel(url, socket_path=self._socket_path, on_send=on_send) as tunnel:
                yield tunnel
        except TunnelRefused as error:
            if error.status == KernelEnded.http_status:
                raise KernelEnded from error
            raise SandboxLost(
                f"The kernel host opened no tunnel (status {error.status}): {self.secrets.hide(error.said)}"
            ) from error

    async def screenshot(self, known: str | None = None, *, left_by: int | None = None) -> tuple[bytes, str] | None:
        """Take a screenshot of the whole desktop.

        Args:
            known: The tag of the last screenshot, if there was one.
            left_by: Take the one that the kernel host began when this cell ended, where it did.

        Returns:
            PNG bytes and the tag of these pixels; None when they are still those of `known`.
        """
        headers = {"If-None-Match": known} if known else {}
        params = {} if left_by is None else {"cell": str(left_by)}
        async with self.request("GET", "/screen.png", headers=headers, params=params, whole_s=ANSWER_S) as response:
            if known and response.status_code == httpx2.codes.NOT_MODIFIED:
                return None
            png, tag = await bounded(response, SCREEN_BYTES), response.headers.get("ETag", "")[:200]
        if not png.startswith(_PNG):
            raise SandboxLost("The kernel host sent a screenshot that is no PNG.")
        return png, tag if tag.isascii() and tag.isprintable() else ""

    async def picture_difference(self, pair: PicturePair) -> PictureDifference:
        """Return in what two pictures differ. They are decoded inside: whoever made them is a stranger."""
        body = pair.model_dump_json().encode()
        path = "/pictures/difference"
        async with self.request("POST", path, content=body, silence_s=PICTURES_S, whole_s=PICTURES_S) as response:
            return checked(PictureDifference, await bounded(response, 1024**2))

    async def list_files(self, path: str = "") -> list[FileInfo]:
        """Return the files below a folder of the sandbox's home."""
        if len(path) > PATH_CHARS:
            raise _no_path(path)
        async with self.request("GET", "/files", params={"path": path}, whole_s=FILE_S) as response:
            listed = checked_files(await bounded(response, 16 * 1024**2))
        if not self.secrets:
            return listed
        return [info.model_copy(update={"path": self.secrets.hide(info.path)}) for info in listed]

    async def read_file(self, path: str) -> AsyncIterator[bytes]:
        """Yield a file's bytes, at most `FILE_BYTES` of them.

        Raises:
            FileMissing: There is no regular file at this path.
            BadPath: The path leaves the sandbox's home, or passes through a link.
        """
        async with self.request("GET", _file_url(path), silence_s=30.0, whole_s=FILE_S) as response:
            async for chunk in limited(response, FILE_BYTES):
                yield chunk

    async def write_file(self, path: str, data: bytes) -> None:
        """Write a file below the sandbox's home, folders included."""
        async with self.request("PUT", _file_url(path), content=data, silence_s=30.0, whole_s=FILE_S) as response:
            await bounded(response, 4096)

    async def delete_file(self, path: str) -> None:
        """Remove a file below the sandbox's home."""
        async with self.request("DELETE", _file_url(path), whole_s=ANSWER_S) as response:
            await bounded(response, 4096)

    def _events(self, response: httpx2.Response, *, is_unfinished: bool = False) -> AsyncIterator[Event]:
        events = cell_events(response)
        if not self.secrets:
            return events
        return without_values(events, self.secrets.hider, is_unfinished=is_unfinished)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        silence_s: float | None = SILENCE_S,
        whole_s: float | None,
        may_refuse: bool = True,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; `SandboxLost` where it has no answer in order, or an error of ours for a refusal."""
        if self._is_closed:
            raise SandboxLost("The sandbox was closed.")
        request = httpx2.Request(
            method,
            _url(path),
            content=content,
            params=params,
            headers=headers,
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), silence_s)},
        )
        # that limit is one between two reads: whoever sends a byte now and then is never silent
        whole = asyncio.timeout(whole_s)
        try:
            async with whole:
                response = await self._transport.handle_async_request(request)
                try:
                    if response.is_error:
                        said = sentence_of(await bounded(response, 64 * 1024))
                        raise_refusal(response.status_code if may_refuse else 500, self.secrets.hide(said)[:500])
                    yield response
                finally:
                    await response.aclose()
        except TimeoutError as error:
            if not whole.expired():
                raise
            raise SandboxLost(f"The kernel host had not answered in full after {whole_s:g} s.") from error
        except httpx2.TimeoutException as error:
            raise SandboxLost("The kernel host fell silent.") from error
        except httpx2.HTTPError as error:
            raise SandboxLost(f"The connection to the kernel host broke: {error or type(error).__name__}.") from error


@lru_cache(64)
def _url(path: str) -> httpx2.URL:
    return httpx2.URL(f"http://sandbox{path}")


def _file_url(path: str) -> str:
    """Return where the kernel host has a file. A client shortens `a/../b`, so such a path would be another route."""
    if path.startswith("/") or {".", ".."} & set(path.split("/")) or len(path) > PATH_CHARS:
        raise _no_path(path)
    if path.endswith("/"):
        raise BadPath(
            f"{path[:100]!r} names a folder, by the slash at its end, and a file was meant. Nothing was done."
        )
    return f"/files/{quote(path, errors='replace')}"


def _no_path(path: str) -> BadPath:
    return BadPath(f"{path[:100]!r} is no path below the sandbox's home. Nothing was done.")
