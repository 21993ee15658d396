"""One connection from inside: what it asks for, whether it may, and the bytes both ways.

Flows in: a connection, which may send anything or nothing. Flows out: an answer, or the other side's bytes, and one
`EgressRequest`. Decided here: that a connection carries one request; that `Host` is what was asked for, so that the
entry which let it through is the one that counts; that the address which was checked is the one connected to; and the
sentence for a refusal, which stands in the status line too, because that is all a CONNECT client shows.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import h11

from cellwright.egress.bodies import BodyWatch
from cellwright.egress.heads import (
    Stopped,
    Target,
    end_to_end,
    head_of,
    host_header,
    is_upgrade,
    is_websocket,
    place_of,
    target_of,
    why,
)
from cellwright.egress.leaving import EffectGate, effect_of
from cellwright.egress.outcome import EgressRequest
from cellwright.egress.placeholders import Placeholders, Refused
from cellwright.egress.relay import Side, relay
from cellwright.egress.rules import LOCALHOST, LOCALHOST_ADDRESSES, Address, AllowList, is_public, plain
from cellwright.egress.spoken import Spoken
from cellwright.egress.tape import Tape
from cellwright.egress.tunnelled import says_http
from cellwright.egress.websocket import EXTENSIONS
from cellwright.egress.witness import Watch

Resolve = Callable[[str, int], Awaitable[list[Address]]]
"""Turns a host name into addresses; raises OSError when there are none."""

_REASON_BYTES: Final = 400


@dataclass(frozen=True)
class Timeouts:
    """How long a connection may take; seconds."""

    head_s: float = 10.0
    """Until the whole head of the request has come."""
    connect_s: float = 10.0
    """For names, and for connecting."""
    idle_s: float = 900.0
    """Without a byte in either direction. Long, because a WebSocket may have nothing to say."""
    total_s: float = 6 * 3600.0


@dataclass(frozen=True)
class Tls:
    """To which ports requests go over TLS, though the inside has sent them without, so that values can be put into them.

    That is so for hosts only that a secret is bound to.
    """

    ports: frozenset[int] = frozenset({443})
    context: ssl.SSLContext | None = None
    """What the other side is checked with; absent: the system's certificates."""


@dataclass(frozen=True)
class _Way:
    """The permission to go somewhere."""

    entry: str
    addresses: tuple[Address, ...]


class Exchange:
    """One connection, from its first byte to its last."""

    def __init__(
        self,
        inside: Side,
        allow: AllowList,
        resolve: Resolve,
        *,
        timeouts: Timeouts,
        placeholders: Placeholders,
        tls: Tls,
        witness: Watch | None = None,
        witness_of_tape: Watch | None = None,
        tape: Tape | None = None,
        gate: EffectGate | None = None,
    ) -> None:
        self._gate = gate
        self._witness, self._witness_of_tape = witness, witness_of_tape
        self._tape = tape
        self._inside = inside
        self._outside: Side | None = None
        self._allow = allow
        self._resolve = resolve
        self._timeouts = timeouts
        self._placeholders = placeholders
        self._tls = tls
        self._secrets: tuple[str, ...] = ()
        self._refused: Refused | None = None
        self._is_websocket = False
        self._target: Target | None = None
        self._way: _Way | None = None
        self._reason: str | None = None
        self._address: str | None = None
        self._started = datetime.now(UTC)

    async def run(self) -> None:
        """Serve the connection to its end.

        Raises:
            OSError, TimeoutError, h11.ProtocolError: It ended other than well; nothing is left to be done for it.
        """
        try:
            async with asyncio.timeout(self._timeouts.total_s):
                await self._run()
        except (Stopped, Refused) as stop:
            if isinstance(stop, Refused):
                self._way, self._secrets = None, stop.names
            self._reason = str(stop)
            await self._say(stop if isinstance(stop, Stopped) else Stopped(403, str(stop)))
        except BaseException:
            if self._outside is not None:
                self._outside.abort()
            raise
        finally:
            if self._outside is not None:
                if self._outside.witness is not None:
                    self._outside.witness.close()
                await self._outside.close()

    def outcome(self) -> EgressRequest | None:
        """Return what came of it; None when it never said where it wanted to go."""
        if self._target is None:
            return None
        return EgressRequest(
            method=self._target.method,
            host=self._target.host,
            port=self._target.port,
            allowed=self._way is not None,
            reason=self._reason or (self._way.entry if self._way else None),
            address=self._address,
            sent_bytes=self._outside.sent if self._outside else 0,
            received_bytes=self._outside.received if self._outside else 0,
            started_at=self._started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration_ms=round((datetime.now(UTC) - self._started).total_seconds() * 1000),
            secrets=self._secrets,
            taped=self._tape is not None,
        )

    async def _run(self) -> None:
        request = await self._head()
        if request is None:
            return
        if self._tape is not None and self._tape.is_lifted:  # asked once: what follows is all of one world
            self._tape = None
        self._target = target = target_of(request)
        self._placeholders.refuse(request.target, "the URL", target.host, target.port)
        self._way = way = await self._way_to(target)
        if self._gate is not None and (effect := effect_of(request, target)) is not None:
            refused = await self._gate(effect, self._inside, taped=self._tape is not None)
            if refused is not None:
                self._way = None
                raise Stopped(403, refused)
        self._outside = outside = await self._connect(target, way)
        if (witness := self._witness if self._tape is None else self._witness_of_tape) is not None:
            outside.witness = witness(target.host, target.port)
        if target.method == "CONNECT":
            self._placeholders.refuse(head_of(request), "the head", target.host, target.port)
            await self._inside.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
            await self._tunnel(target, outside)
        elif await self._pass_on(request, target, outside):
            await self._relay(target, outside)

    async def _tunnel(self, target: Target, outside: Side) -> None:
        """Carry bytes; of a request that is not encrypted, read where a secret's value belongs."""
        async with asyncio.timeout(self._timeouts.idle_s):
            is_clear = bool(self._placeholders) and await says_http(self._inside, outside, self._timeouts.head_s)
        if is_clear:
            self._inside = self._inside.within()
            request = await self._head()
            if request is None:
                return
            self._placeholders.refuse(request.target, "the URL", target.host, target.port)
            host = next((value for name, value in request.headers if name == b"host"), None)
            inner = replace(target, path=request.target)
            if not await self._pass_on(request, inner, outside, host=host):
                return
        await self._relay(target, outside)

    async def _relay(self, target: Target, outside: Side) -> None:
        if not self._placeholders:
            return await relay(self._inside, outside, idle_s=self._timeouts.idle_s)
        spoken = Spoken(self._placeholders, target.host, target.port, is_websocket=self._is_websocket)
        try:
            await relay(self._inside, outside, idle_s=self._timeouts.idle_s, looks=spoken)
        finally:
            if spoken.refused is not None:
                raise spoken.refused

    async def _head(self) -> h11.Request | None:
        try:
            async with asyncio.timeout(self._timeouts.head_s):
                event = await self._inside.next_event()
        except h11.RemoteProtocolError as error:
            raise Stopped(
                error.error_status_hint, f"This is an HTTP proxy, and that was no request: {error}."
            ) from error
        except TimeoutError as error:
            raise Stopped(408, f"No whole request came within {self._timeouts.head_s:g} s.") from error
        return event if isinstance(event, h11.Request) else None

    async def _way_to(self, target: Target) -> _Way:
        where = place_of(target.host, target.port)
        rule = self._allow.rule_for(target.host, target.port)
        if rule is None:
            raise Stopped(
                403,
                f"{where} is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
                f"`--allow HOST[:PORT]`; it allows {self._allow}.",
            )
        if self._tape is not None:
            return _Way(rule.entry, ())  # where it was may be gone
        if rule.address is not None:
            return _Way(rule.entry, (rule.address,))
        addresses = LOCALHOST_ADDRESSES if rule.host == LOCALHOST else await self._addresses(target)
        checked = tuple(a for a in addresses if rule.is_loopback or self._allow.allows_address(a, target.port))
        if not checked:
            private = next(a for a in addresses if not is_public(a))
            raise Stopped(
                403,
                f"{where} leads to {plain(private)}, which is not a public address; the allow-list's entry {rule.entry} does "
                f"not open it. Only an entry that names this address does.",
            )
        return _Way(rule.entry, checked)

    async def _addresses(self, target: Target) -> list[Address]:
        try:
            async with asyncio.timeout(self._timeouts.connect_s):
                addresses = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            raise Stopped(502, f"The name {target.host} could not be resolved: {why(error)}.") from error
        if not addresses:
            raise Stopped(502, f"The name {target.host} has no address.")
        return addresses

    async def _connect(self, target: Target, way: _Way) -> Side:
        if self._tape is not None:
            return Side(*await self._tape.connect(target.host, target.port), h11.CLIENT)
        last: OSError | None = None
        for address in way.addresses:
            try:
                async with asyncio.timeout(self._timeouts.connect_s):
                    streams = await asyncio.open_connection(str(address), target.port, **self._encryption(target))
            except OSError as error:
                last = error
                continue
            self._address = str(address)
            return Side(*streams, h11.CLIENT)
        raise Stopped(502, f"{place_of(target.host, target.port)} did not answer: {why(last)}.") from last

    def _encryption(self, target: Target) -> dict[str, Any]:
        """Return how a connection for a request is to be encrypted."""
        is_bound = target.method != "CONNECT" and self._placeholders.is_bound(target.host, target.port)
        if not is_bound or target.port not in self._tls.ports:
            return {}
        return {"ssl": self._tls.context or _system_certificates(), "server_hostname": target.host}

    async def _pass_on(self, request: h11.Request, target: Target, outside: Side, *, host: bytes | None = None) -> bool:
        """Carry one plain request and its response; return True when both sides agreed to speak something else."""
        upgrade = is_upgrade(request)
        headers = [
            (b"Host", host or host_header(target, is_encrypted=bool(self._encryption(target)))),
            *end_to_end(request, upgrade=upgrade),
        ]
        if not upgrade:
            headers.append((b"Connection", b"close"))
        if self._placeholders:
            self._is_websocket = upgrade and is_websocket(request)
            if self._is_websocket:  # messages would be compressed, each with those before
                headers = [(name, value) for name, value in headers if name.lower() != EXTENSIONS]
            headers, self._secrets = self._placeholders.filled(headers, target.host, target.port)
        await outside.send(h11.Request(method=request.method, target=target.path, headers=headers))
        async with asyncio.timeout(self._timeouts.idle_s) as clock:
            body = asyncio.ensure_future(self._carry_body(request, target, outside, clock))
            try:
                return await self._carry_response(outside, clock)
            except Stopped:
                if self._refused is not None:
                    raise self._refused from None
                raise
            finally:
                body.cancel()
                await asyncio.gather(body, return_exceptions=True)

    async def _carry_body(self, request: h11.Request, target: Target, outside: Side, clock: asyncio.Timeout) -> None:
        """Carry the request's body. Where the other side stops reading it, its response still counts."""
        watch = BodyWatch(self._placeholders, request.headers, target.host, target.port) if self._placeholders else None
        try:
            while isinstance(event := await self._inside.next_event(), h11.Data):
                self._touch(clock)
                if watch is not None:
                    self._refuse_early_messages(target)
                    await watch.look(bytes(event.data))
                await outside.send(h11.Data(data=event.data))
                await asyncio.sleep(0)  # thousands of pieces may have come at once, and others have their turn
            if isinstance(event, h11.EndOfMessage):
                await outside.send(h11.EndOfMessage())
        except Refused as refused:
            self._refused = refused
            outside.abort()
        except h11.RemoteProtocolError:
            outside.abort()  # the rest of the body will not come, so neither will a response
        except OSError:
            return

    def _refuse_early_messages(self, target: Target) -> None:
        """Refuse a body that a server would read as messages, because it needs none to agree on a WebSocket."""
        if self._is_websocket:
            raise Refused(
                f"A request for a WebSocket to {place_of(target.host, target.port)} had a body, and this session has secrets. It was "
                "not sent on. Send messages once the WebSocket is open."
            )

    async def _carry_response(self, outside: Side, clock: asyncio.Timeout) -> bool:
        while True:
            event = await self._response_event(outside)
            self._touch(clock)
            match event:
                case h11.InformationalResponse(status_code=101):
                    headers = end_to_end(event, upgrade=True)
                    await self._inside.send(h11.InformationalResponse(status_code=101, headers=headers))
                    self._is_websocket |= is_websocket(event)
                    return True
                case h11.InformationalResponse():
                    headers = end_to_end(event)
                    await self._inside.send(h11.InformationalResponse(status_code=event.status_code, headers=headers))
                case h11.Response():
                    headers = [*end_to_end(event), (b"Connection", b"close")]
                    await self._inside.send(
                        h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
                    )
                case h11.Data():
                    await self._inside.send(h11.Data(data=event.data))
                    await asyncio.sleep(0)
                case h11.EndOfMessage():
                    await self._inside.send(h11.EndOfMessage())
                    return False
                case _:
                    raise Stopped(502, "The connection ended before there was a response.")

    async def _response_event(self, outside: Side) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        try:
            return await outside.next_event()
        except (h11.RemoteProtocolError, ConnectionError) as error:
            raise Stopped(502, f"The response was cut off or is no HTTP: {error}.") from error

    def _touch(self, clock: asyncio.Timeout) -> None:
        clock.reschedule(asyncio.get_running_loop().time() + self._timeouts.idle_s)

    async def _say(self, stop: Stopped) -> None:
        """Answer with the sentence, if there is still an answer to give."""
        if self._inside.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            return
        text = f"{stop}\n".encode()
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Content-Length", str(len(text)).encode()),
            (b"Connection", b"close"),
        ]
        reason = str(stop).encode("ascii", "replace")
        if len(reason) > _REASON_BYTES:
            reason = reason[: _REASON_BYTES - 3] + b"..."
        await self._inside.send(h11.Response(status_code=stop.status, headers=headers, reason=reason))
        if self._target is None or self._target.method != "HEAD":
            await self._inside.send(h11.Data(data=text))
        await self._inside.send(h11.EndOfMessage())


@cache
def _system_certificates() -> ssl.SSLContext:
    return ssl.create_default_context()
