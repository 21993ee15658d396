"""The forward proxy of one session, on a Unix socket that only its sandbox is given.

Flows in: the allow-list, and connections. Flows out: a call for each request, when it is over.
Decided here: how many connections at once; that nothing which comes in can end the proxy; that closing it ends every
connection and waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Self

import h11

from cellwright.egress.exchange import Exchange, Resolve, Timeouts, Tls
from cellwright.egress.leaving import EffectGate
from cellwright.egress.outcome import EgressRequest
from cellwright.egress.placeholders import Placeholders
from cellwright.egress.relay import Side
from cellwright.egress.rules import Address, AllowList
from cellwright.egress.tape import Tape
from cellwright.egress.traffic import Room
from cellwright.egress.witness import Hears, Witness
from cellwright.secrets import NONE, Secrets

MOST_CONNECTIONS: Final = 256
"""At once; Chromium opens at most 32 through a proxy and 255 WebSockets."""

_log = logging.getLogger("cellwright.egress")


class EgressProxy:
    """A forward proxy: HTTP with absolute URLs, and CONNECT. Use it with `async with`."""

    def __init__(
        self,
        allow: Sequence[str],
        socket_path: Path,
        on_connection: Callable[[], Callable[[EgressRequest], None]] | None = None,
        *,
        timeouts: Timeouts | None = None,
        resolve: Resolve | None = None,
        secrets: Secrets = NONE,
        tls: Tls | None = None,
        hears: Hears | None = None,
        hears_tape: Hears | None = None,
        tape: Tape | None = None,
        gate: EffectGate | None = None,
    ) -> None:
        """Read the allow-list; nothing listens yet.

        Args:
            allow: Entries like `example.com`, `*.example.com:443`, `127.0.0.1:8000`, `localhost:8000`.
            socket_path: Where it will listen; the file is removed at the end.
            on_connection: Called in the event loop when a connection comes; what it returns is called once with what was
                asked for on it, when that is over or was refused.
            timeouts: How long things may take; absent: the defaults.
            resolve: Turns names into addresses; absent: the system's resolver.
            secrets: What stands for a placeholder, and where.
            tls: Which requests that have such go out over TLS; absent: those to port 443.
            hears: Is told what passes in clear.
            hears_tape: The same of what the tape answers; absent: `hears` is.
            tape: Answers in place of the world until it is lifted: nothing goes out, and no name is looked up.
            gate: Decides whether what may change something goes out; absent: it does.

        Raises:
            UsageError: An entry is not one.
        """
        self._allow = AllowList.of(allow)
        self._socket_path = socket_path
        self._on_connection = on_connection
        self._timeouts = timeouts or Timeouts()
        self._resolve = resolve or _ask_system
        self._placeholders = Placeholders(secrets)
        self._tls = tls or Tls()
        room = Room()
        self._witness = None if hears is None else partial(Witness, hears=hears, room=room)
        self._witness_of_tape = None if hears_tape is None else partial(Witness, hears=hears_tape, room=room)
        self._tape = tape
        self._gate = gate
        self._connections = 0
        self._serving: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "closed" if self._serving is None else "listening"
        return f"<EgressProxy {state}: allows {self._allow}, {self._connections} connections>"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: The socket could not be made.
        """
        listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.ensure_future(self._serve(listening))  # its end is awaited below or in __aexit__
        try:
            await asyncio.wait({listening, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        if self._serving.done():
            await self._serving
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait({self._serving})
            self._serving = None

    async def _serve(self, listening: asyncio.Future[None]) -> None:
        # a task of its own holds the group, because whoever closes a session need not be the task that opened it
        group = asyncio.TaskGroup()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if server.is_serving():
                group.create_task(self._connection(reader, writer))
            else:
                writer.transport.abort()

        server = await asyncio.start_unix_server(accept, self._socket_path, start_serving=False)
        try:
            async with group:
                try:
                    await server.start_serving()
                    listening.set_result(None)
                    await asyncio.get_running_loop().create_future()
                finally:
                    server.close()  # not waited for: from Python 3.12 on it would wait for connections the group ends next
        finally:
            self._socket_path.unlink(missing_ok=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = Side(reader, writer, h11.SERVER)
        if self._connections >= MOST_CONNECTIONS:
            inside.abort()
            return
        self._connections += 1
        tell = self._on_connection() if self._on_connection is not None else None
        exchange = Exchange(
            *(inside, self._allow, self._resolve),
            timeouts=self._timeouts,
            placeholders=self._placeholders,
            tls=self._tls,
            witness=self._witness,
            witness_of_tape=self._witness_of_tape or self._witness,
            tape=self._tape,
            gate=self._gate,
        )
        try:
            await exchange.run()
        except asyncio.CancelledError:
            inside.abort()
            raise
        except Exception as error:
            if not _broke_off(error):
                _log.exception("An egress connection failed")
            inside.abort()
        finally:
            self._connections -= 1
            if tell is not None:
                _tell(tell, exchange.outcome())
            await inside.close()


def _tell(tell: Callable[[EgressRequest], None], request: EgressRequest | None) -> None:
    if request is None:
        return
    try:
        tell(request)
    except Exception:
        _log.exception("An egress request could not be recorded: %s", request)


def _broke_off(error: Exception) -> bool:
    """Return whether this is what strangers' connections do: break, stall, speak no HTTP."""
    if isinstance(error, ExceptionGroup):
        return all(_broke_off(part) for part in error.exceptions)
    return isinstance(error, (OSError, h11.ProtocolError))  # TimeoutError is an OSError


async def _ask_system(host: str, port: int) -> list[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(place[4][0]) for place in found]
