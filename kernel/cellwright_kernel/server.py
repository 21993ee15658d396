"""What serves the kernel host's door: a listening socket, and uvicorn on it.

Flows in: an application, and where it is to be reached. Flows out: its answers. Decided here: what kinds of socket there are;
how long an idle connection is kept; and that signals are left to the host, which decides when to stop.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette

from cellwright_kernel.tunnel import CHUNK_BYTES

_KEEP_ALIVE_S: Final = 3600
"""A model thinks for longer than the usual five seconds between two cells, and a new connection costs a cell 0.5 ms."""


class Server(uvicorn.Server):
    """uvicorn without signal handlers: the host decides when to stop.

    Args:
        app: What answers.
        listener: A listening socket.
    """

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=_KEEP_ALIVE_S,
                ws="websockets-sansio",
                ws_max_size=CHUNK_BYTES,
                ws_per_message_deflate=False,
            )
        )
        self._listener = listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `stop` is called."""
        await self.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Stop serving; requests that are being answered have a second."""
        self.should_exit = True


def listener(where: str) -> socket.socket:
    """Return the listening socket that `HostSettings.door` names: `fd:N`, `unix:PATH` or `tcp:HOST:PORT`."""
    kind, _, rest = where.partition(":")
    match kind:
        case "fd":
            return socket.socket(fileno=int(rest))
        case "unix":
            return _bound_at(Path(rest))
        case "tcp":
            host, _, port = rest.rpartition(":")
            return _bound(socket.AF_INET6 if ":" in host else socket.AF_INET, (host.strip("[]"), int(port)))
        case _:
            raise ValueError(f"The door {where!r} is none of fd:N, unix:PATH, tcp:HOST:PORT.")


def _bound_at(path: Path) -> socket.socket:
    """Return a socket that is there only once it listens: whoever waits for it may take it away at once."""
    making = path.with_suffix(".new")
    made = _bound(socket.AF_UNIX, str(making))
    making.chmod(0o666)  # whoever made its folder says who gets there
    making.rename(path)
    return made


def _bound(family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    if family != socket.AF_UNIX:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it; asyncio would set it only for a protocol that was named. Without it: 40 ms an answer.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.bind(address)
    made.listen(128)
    return made
