"""What a request to the proxy asks for, read as the egress proxy outside reads it.

Flows in: the bytes of a connection to the proxy. Flows out: host and port, or the answer to what is no such request.
Decided here: nothing of its own. Where there is no way out, this end of it answers, and whoever asks must not be able
to tell the two apart; a test puts the same requests to both. The outside trusts nothing from in here, so it has its
own.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

import h11

_HEAD_BYTES: Final = 32 * 1024
_HEAD_S: Final = 10.0
_CHUNK: Final = 64 * 1024
_PLAIN_URL: Final = re.compile(r"(?i:http)://(?P<authority>[^/?#]*)(?P<path>[^#]*)(#.*)?")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


class NotAsked(Exception):
    """It is no request to a proxy; `str()` of it is the sentence for whoever sent it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Asked:
    """A request that would be sent on, were it allowed."""

    method: str
    host: str
    """In its plain form: lower case, addresses at their shortest and without brackets."""
    port: int
    is_of_browser: bool
    is_page: bool
    """Whether a browser asks for a page that somebody wants to go to. Parts of pages and frames name the page they are
    for, and so does a link that is followed; what Chromium asks for by itself is none that it would show."""

    @property
    def where(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def asked_in(head: bytes) -> Asked | None:
    """Read a request's head that is there already; None when it is none, or not whole."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
    try:
        connection.receive_data(head)
        event = connection.next_event()
        return _asked(event) if isinstance(event, h11.Request) else None
    except (h11.RemoteProtocolError, NotAsked):
        return None


async def asked_for(reader: asyncio.StreamReader) -> Asked | None:
    """Read a request's head; None when the connection ended without one.

    Raises:
        NotAsked: It is no request, or none to a proxy.
        OSError: The connection broke.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
    try:
        async with asyncio.timeout(_HEAD_S):
            while (event := connection.next_event()) is h11.NEED_DATA:
                connection.receive_data(await reader.read(_CHUNK))
    except h11.RemoteProtocolError as error:
        raise NotAsked(error.error_status_hint, f"This is an HTTP proxy, and that was no request: {error}.") from error
    except TimeoutError as error:
        raise NotAsked(408, f"No whole request came within {_HEAD_S:g} s.") from error
    return _asked(event) if isinstance(event, h11.Request) else None


def _asked(request: h11.Request) -> Asked:
    method, text = request.method.decode("ascii"), request.target.decode("ascii")
    headers = dict(request.headers)
    of_browser = headers.get(b"user-agent", b"").lower().startswith(b"mozilla/")
    is_page = of_browser and b"upgrade-insecure-requests" in headers and b"referer" not in headers
    if method == "CONNECT":
        found = _authority(text)
        if found is None or found[1] is None:
            raise NotAsked(400, "CONNECT needs HOST:PORT.")
        return Asked(method, found[0], found[1], of_browser, is_page)
    match = _PLAIN_URL.fullmatch(text)
    if match is None:
        raise NotAsked(400, "This is an HTTP proxy: it takes absolute http:// URLs, and CONNECT for everything else.")
    found = _authority(match["authority"])
    if found is None:
        raise NotAsked(400, "The URL has no host that could be looked up.")
    return Asked(method, found[0], found[1] or 80, of_browser, is_page)


def _authority(text: str) -> tuple[str, int | None] | None:
    match = _AUTHORITY.fullmatch(text)
    if match is None or (port := int(match["port"] or 1)) > 65535 or port == 0:
        return None
    host = _plain_host(match["host"])
    return None if host is None else (host, int(match["port"]) if match["port"] else None)


def _plain_host(host: str) -> str | None:
    host = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    try:
        return str(_plain(ip_address(host)))
    except ValueError:
        pass
    last = host.rpartition(".")[2]
    if not _NAME.fullmatch(host) or last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        return None
    return host


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
