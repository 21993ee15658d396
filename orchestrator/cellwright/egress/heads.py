"""What heads say, and what of them is passed on.

Flows in: requests and responses as h11 has read them. Flows out: where a request is for, or the sentence why that is nowhere;
and the headers that are meant for the other end. Decided here: which these are; and that both ways to say how long a body
is are never passed on at once, which is how requests are smuggled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import h11

from cellwright.egress.rules import authority

_Headed = h11.Request | h11.Response | h11.InformationalResponse

_METHOD_CHARS: Final = 40
_PLAIN_URL: Final = re.compile(r"(?i:http)://(?P<authority>[^/?#]*)(?P<path>[^#]*)(#.*)?")
_HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade host".split()
)
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(frozen=True)
class Target:
    """Where a request is for."""

    method: str
    host: str
    port: int
    path: bytes
    """Path and query for a plain request; empty for CONNECT."""


class Stopped(Exception):
    """The request goes no further; `str()` of it is the sentence for whoever asked."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def target_of(request: h11.Request) -> Target:
    """Return where a request to a proxy is for.

    Raises:
        Stopped: It is none.
    """
    method, text = request.method.decode("ascii"), request.target.decode("ascii")
    if method == "CONNECT":
        found = authority(text)
        if found is None or found[1] is None:
            raise Stopped(400, "CONNECT needs HOST:PORT.")
        return Target(method, found[0], found[1], b"")
    match = _PLAIN_URL.fullmatch(text)
    if match is None:
        raise Stopped(400, "This is an HTTP proxy: it takes absolute http:// URLs, and CONNECT for everything else.")
    found = authority(match["authority"])
    if found is None:
        raise Stopped(400, "The URL has no host that could be looked up.")
    path = match["path"] if match["path"].startswith("/") else "/" + match["path"]
    return Target(method[:_METHOD_CHARS], found[0], found[1] or 80, path.encode("ascii"))


def end_to_end(event: _Headed, *, upgrade: bool = False) -> list[tuple[bytes, bytes]]:
    """Return the headers that are meant for the other end, and with `upgrade` those that ask for another protocol."""
    named = {token for name, value in event.headers if name == b"connection" for token in _tokens(value)}
    chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
    kept: list[tuple[bytes, bytes]] = []
    for name, value in event.headers.raw_items():
        lower = name.lower()
        if lower in _HOP_BY_HOP or (lower in named and lower not in _FRAMING):
            continue
        if lower == b"content-length" and chunked:
            continue  # both at once is how requests are smuggled
        kept.append((name, value))
    if upgrade:
        kept += [(b"Connection", b"Upgrade"), *((b"Upgrade", v) for name, v in event.headers if name == b"upgrade")]
    return kept


def head_of(request: h11.Request) -> bytes:
    """Return all headers of a request, to be looked through."""
    return b"\n".join(name + b":" + value for name, value in request.headers)


def is_upgrade(request: h11.Request) -> bool:
    """Return whether a request asks to speak something else afterwards."""
    names = {name for name, _ in request.headers}
    return b"upgrade" in names and any(
        b"upgrade" in _tokens(value) for name, value in request.headers if name == b"connection"
    )


def is_websocket(event: _Headed) -> bool:
    """Return whether what an upgrade asks for, or agrees to, may be a WebSocket; some ask for `websocket/13`."""
    return any(name == b"upgrade" and b"websocket" in value.lower() for name, value in event.headers)


def _tokens(value: bytes) -> set[bytes]:
    return {token.strip().lower() for token in value.split(b",")}


def host_header(target: Target, *, is_encrypted: bool = False) -> bytes:
    """Return what `Host` says of a request that is for there."""
    usual = 443 if is_encrypted else 80
    return (_bracketed(target.host) if target.port == usual else place_of(target.host, target.port)).encode("ascii")


def place_of(host: str, port: int) -> str:
    """Return host and port as a URL has them."""
    return f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def why(error: OSError | UnicodeError | None) -> str:
    """Return why something was not reached."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused; usually nothing listens there"
    return str(getattr(error, "strerror", None) or error)
