"""A kernel's five sockets, here: Unix sockets in a private folder, each connection to one of them a tunnel.

Flows in: what a client must know of the kernel, and where its tunnels begin. Flows out: a Jupyter connection file. Decided
here: that only this user reaches the sockets (one that publishes asks nobody for a key); that all of it ends when a
tunnel is refused, since it would be refused again; and that nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, get_args

from cellwright.cli.service import refused
from cellwright.errors import CellwrightError, ServiceUnreachable
from cellwright.sandbox.tunnel import CHUNK_BYTES, CLOSE_S, TunnelRefused, open_tunnel
from cellwright_kernel.wire import Channel, KernelConnection

_CHANNELS: Final[tuple[Channel, ...]] = get_args(Channel)


@asynccontextmanager
async def local_sockets(
    connection: KernelConnection, url: str, token: str
) -> AsyncIterator[tuple[Path, asyncio.Future[CellwrightError]]]:
    """Listen on a kernel's behalf.

    Args:
        connection: What a client must know of the kernel.
        url: `ws://...` of its tunnels; the channel follows.
        token: The service token.

    Returns:
        The connection file; and a future that says why, once the kernel cannot be reached any more.
    """
    ended: asyncio.Future[CellwrightError] = asyncio.get_running_loop().create_future()
    folder = Path(tempfile.mkdtemp(prefix="cellwright-attach-", dir=_private_place()))  # of mode 0700
    servers: list[asyncio.AbstractServer] = []
    try:
        async with asyncio.TaskGroup() as group:
            end = _End(url, token, connection.kernel_id, ended, group)
            for number, channel in enumerate(_CHANNELS, 1):
                servers.append(await asyncio.start_unix_server(partial(end.accept, channel), folder / f"s-{number}"))
            try:
                yield _write(connection, folder), ended
            finally:
                for server in servers:
                    server.close()
                for task in end.tasks:
                    task.cancel()
    finally:
        ended.cancel()
        shutil.rmtree(folder, ignore_errors=True)


class _End:
    """This side's end of all tunnels."""

    def __init__(
        self, url: str, token: str, kernel_id: str, ended: asyncio.Future[CellwrightError], group: asyncio.TaskGroup
    ) -> None:
        self._url = url
        self._token = token
        self._kernel_id = kernel_id
        self._ended = ended
        self._group = group
        self.tasks: set[asyncio.Task[None]] = set()

    def accept(self, channel: Channel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the Jupyter client."""
        task = self._group.create_task(self._serve(channel, reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _serve(self, channel: Channel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        url = f"{self._url}/{channel}?kernel_id={self._kernel_id}"
        try:
            async with open_tunnel(url, token=self._token) as tunnel:

                async def hand_on(data: bytes) -> None:
                    writer.write(data)
                    await writer.drain()

                await tunnel.carry(_chunks(reader), hand_on)
        except TunnelRefused as refusal:
            if not self._ended.done():
                self._ended.set_result(_as_error(refusal))
        finally:
            await _close(writer)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while data := await reader.read(CHUNK_BYTES):
        yield data


async def _close(writer: asyncio.StreamWriter) -> None:
    """Give a client that still reads the time to do so; one that does not loses what is left."""
    writer.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await writer.wait_closed()
    except OSError:  # it broke, or took too long
        writer.transport.abort()


def _write(connection: KernelConnection, folder: Path) -> Path:
    content = {
        "transport": "ipc",
        "ip": str(folder / "s"),
        **{f"{channel}_port": number for number, channel in enumerate(_CHANNELS, 1)},
        "key": connection.key,
        "signature_scheme": connection.signature_scheme,
    }
    file = folder / "kernel.json"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        json.dump(content, out)
    return file


def _private_place() -> str | None:
    """Where sockets of this user belong; None: where temporary files go."""
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    return place if place and os.access(place, os.W_OK) else None


def _as_error(refusal: TunnelRefused) -> CellwrightError:
    if refusal.status:
        return refused(refusal.status, refusal.said)
    return ServiceUnreachable(
        f"`cellwright serve` does not answer any more ({refusal.said}). Usually it has ended, and its sessions with it."
    )
