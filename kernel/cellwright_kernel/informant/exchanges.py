"""Chromium's events of the network, as requests and the responses to them.

Flows in: events of all pages, frames and workers, as they come. Flows out: what is told outside, but for the bodies of responses,
which are to be asked for. Decided here: that each hop of a redirection is an exchange of its own; that the headers are those
on the wire, where Chromium tells them; that a stream is told as soon as it begins, without what comes in it, as is what
Chromium gave to no page, a download; and that the sandbox's own loopback, data and extensions are nobody's business.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from cellwright_kernel.wire_https import BODY_BYTES, HttpsBody, HttpsExchanged, HttpsRequest, HttpsSent

MOST_OPEN: Final = 2000
"""Most requests that are followed at once."""
MOST_SENT: Final = 1100
"""Most requests of one cell of which it is told that they go out; a few more than the outside records."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NO_BODY: Final = HttpsBody(size_bytes=0, data=b"")
_STREAM: Final = "text/event-stream"

Headers = tuple[tuple[str, str], ...]


@dataclass
class _Hop:
    """One request; its response, when there is one."""

    request: HttpsRequest | None
    """None where it is not told."""
    body: HttpsBody
    cell: int | None
    response: dict[str, Any] | None = None
    has_extra: bool = False


@dataclass
class Loading:
    """What was asked for under one id, over all its redirections."""

    request_id: str
    session: str
    hops: list[_Hop]
    moment: float
    """Of its last hop, as Chromium counts."""
    extras: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What stood on the wire, in order, and who told it; one for each hop that has it."""
    size_bytes: int = 0
    """Of the body, as far as it has come."""
    is_whole: bool = False
    """Whether the body has come to its end, so that Chromium can be asked for it."""
    is_told: bool = False
    is_left: bool = False
    """Whether who asked has gone."""
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while all that stood on the wire has been told; that comes on another way than the rest, and may come after it."""

    @property
    def lacks_wire(self) -> bool:
        """Whether some of what stood on the wire has yet to be told."""
        return sum(hop.has_extra for hop in self.hops) > len(self.extras)

    def adds(self, session: str, extra: dict[str, Any]) -> None:
        """Take what stood on the wire of the next hop, but for what another connection told already."""
        if not any(told == extra and by != session for by, told in self.extras):
            self.extras.append((session, extra))
        if not self.lacks_wire:
            self.is_complete.set()

    @property
    def wants_body(self) -> bool:
        """Whether there is something to be asked for that may be kept."""
        return self.is_whole and self.hops[-1].request is not None and self.size_bytes <= BODY_BYTES

    def told(self, body: HttpsBody, *, is_text: bool = False) -> Iterator[HttpsExchanged]:
        """Yield its exchanges, but for those told before.

        Args:
            body: Of the last response.
            is_text: Whether it is one that Chromium gave as text, which is UTF-8 now.
        """
        if self.is_told:
            return
        self.is_told = True
        extras = iter([extra for _, extra in self.extras])
        for hop in self.hops:
            extra = next(extras, None) if hop.has_extra else None
            if hop.request is None or hop.response is None:
                continue
            is_last = hop is self.hops[-1]
            said = _exchanged(hop, extra, body if is_last else _NO_BODY, is_text=is_text and is_last)
            if said is not None:
                yield said


class Exchanges:
    """The requests of one browser.

    Args:
        is_told: Whether what is asked of a host and port is told.
        executing: Returns the number of the cell that runs; None between cells.
        sent: Is told of each request that may change something.
    """

    def __init__(
        self,
        is_told: Callable[[str, int], bool],
        executing: Callable[[], int | None],
        sent: Callable[[HttpsSent], object],
    ) -> None:
        self._is_told = is_told
        self._executing = executing
        self._sent = sent
        self._open: dict[str, Loading] = {}
        self._ended_early: dict[str, Loading] = {}
        """What has ended, but for what stood on the wire."""
        self._sent_of: tuple[int | None, int] = (None, 0)
        """A cell, and how many of its requests were told to go out."""
        self.missed = 0
        """Requests that are not followed, since too many are."""

    def take(self, session: str, method: str, said: dict[str, Any]) -> Loading | None:
        """Take an event; return what is to be told now, if anything is."""
        if method == "Network.requestWillBeSent":
            self._will_be_sent(session, said)
            return None
        request_id, is_of_wire = str(said.get("requestId")), method == "Network.responseReceivedExtraInfo"
        loading = self._open.get(request_id) or (self._ended_early.get(request_id) if is_of_wire else None)
        if loading is None:
            return None
        match method:
            case "Network.responseReceivedExtraInfo":
                loading.adds(session, said)
            case "Network.responseReceived":
                return self._received(loading, session, said)
            case "Network.dataReceived":
                loading.size_bytes += int(said["dataLength"])
            case "Network.loadingFinished":
                loading.session, loading.is_whole = session, True
                return self._ended(loading)
            case "Network.loadingFailed":
                return self._failed(loading, said)
            case _:
                pass
        return None

    def gone(self, session: str) -> None:
        """A page, frame or worker has gone: what it asked for is not waited for, though of a frame's another may tell yet."""
        for loading in self._open.values():
            loading.is_left |= loading.session == session

    def told(self, loading: Loading) -> None:
        """It has been told: nothing is added to it any more."""
        self._ended_early.pop(loading.request_id, None)

    @property
    def is_answered(self) -> bool:
        """Whether the answer to something has begun to come, and is none that goes on as long as it likes."""
        awaited = (loading for loading in self._open.values() if not (loading.is_told or loading.is_left))
        return any(loading.hops[-1].response is not None for loading in awaited)

    def unfinished(self) -> list[Loading]:
        """Return what has not ended, and follow it no longer."""
        left = [loading for loading in self._open.values() if loading.hops[-1].response is not None]
        self._open.clear()
        return left

    def _will_be_sent(self, session: str, said: dict[str, Any]) -> None:
        request_id, request = str(said["requestId"]), said["request"]
        before = self._open.get(request_id)
        if not str(request["url"]).startswith(("https:", "http:")):
            return
        redirection, moment = said.get("redirectResponse"), float(said.get("timestamp", 0))
        if before is not None and (redirection is None or before.moment == moment):
            return  # of a worker that two connections are attached to: one told it already
        if before is None and len(self._open) >= MOST_OPEN:  # the oldest has most likely been left, and ends never
            self.missed += not self._open.pop(next(iter(self._open))).is_told
        asked = request_of(request["method"], request["url"], self._is_told)
        hop = _Hop(asked, body_of(request) if asked is not None else _NO_BODY, self._executing())
        if before is None:
            self._open[request_id] = Loading(request_id, session, [hop], moment)
        else:
            last = before.hops[-1]
            last.response, last.has_extra = redirection, bool(said.get("redirectHasExtraInfo"))
            before.hops.append(hop)
            before.session, before.moment = session, moment
        if asked is not None and asked.method not in _READING:
            self._goes_out(HttpsSent(request=asked, cell=hop.cell))

    def _goes_out(self, told: HttpsSent) -> None:
        cell, count = self._sent_of
        count = count + 1 if cell == told.cell else 1
        self._sent_of = told.cell, count
        if count <= MOST_SENT:
            self._sent(told)

    def _received(self, loading: Loading, session: str, said: dict[str, Any]) -> Loading | None:
        loading.session = session
        response = said["response"]
        if response.get("fromServiceWorker"):  # made up inside, from what its own requests brought
            del self._open[loading.request_id]
            return None
        loading.hops[-1].response = response
        loading.hops[-1].has_extra = bool(said.get("hasExtraInfo"))
        return loading if response.get("mimeType") == _STREAM else None

    def _failed(self, loading: Loading, said: dict[str, Any]) -> Loading | None:
        last = loading.hops[-1]
        if last.response is None and said.get("corsErrorStatus") and loading.extras:
            _, extra = loading.extras[-1]  # the page is not shown it, and need not be again
            last.response = {"status": extra["statusCode"], "headers": extra["headers"]}
            loading.is_whole = False
        return self._ended(loading)

    def _ended(self, loading: Loading) -> Loading:
        del self._open[loading.request_id]
        if loading.lacks_wire:
            self._ended_early[loading.request_id] = loading
        return loading


def request_of(method: str, url: str, is_told: Callable[[str, int], bool]) -> HttpsRequest | None:
    """Return what is asked for by HTTPS; None where it is by anything else, or is not told."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        return None
    if parts.scheme != "https" or not is_told(host, port):
        return None
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        return HttpsRequest(method=method, host=host, port=port, target=target)
    except ValidationError:  # longer than is told
        return None


def body_of(request: dict[str, Any]) -> HttpsBody:
    """Return what a request carries; without its bytes where Chromium does not say all of them, as of files."""
    if not request.get("hasPostData"):
        return _NO_BODY
    entries = request.get("postDataEntries")
    if not entries or any("bytes" not in entry for entry in entries):
        return HttpsBody(size_bytes=0)
    data = b"".join(_decoded(entry["bytes"]) for entry in entries)
    return kept(data)


def kept(data: bytes) -> HttpsBody:
    """Return a body, without its bytes where they are too many."""
    return HttpsBody(size_bytes=len(data), data=data if len(data) <= BODY_BYTES else None)


def response_body(said: dict[str, Any]) -> tuple[HttpsBody, bool]:
    """Return a response's body as Chromium gives it, and whether that was as text."""
    if said.get("base64Encoded"):
        return kept(_decoded(said["body"])), False
    data = str(said["body"]).encode("utf-8", "surrogatepass")
    return kept(data), not data.isascii()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _exchanged(hop: _Hop, extra: dict[str, Any] | None, body: HttpsBody, *, is_text: bool) -> HttpsExchanged | None:
    assert hop.request is not None  # noqa: S101 - for the type checker; whoever calls has looked
    assert hop.response is not None  # noqa: S101 - the same
    response = hop.response
    # of a page that was in the cache still, the wire has a 304 without most of its headers
    on_wire = extra is not None and extra.get("statusCode") == response["status"]
    headers = _headers(extra["headers"] if extra is not None and on_wire else response["headers"])
    try:
        return HttpsExchanged(
            request=hop.request,
            cell=hop.cell,
            request_body=hop.body,
            status=response["status"],
            reason=str(response.get("statusText") or "")[:1000],
            headers=_as_utf8(headers) if is_text else headers,
            body=_NO_BODY if hop.request.method == "HEAD" else body,
        )
    except ValidationError:  # headers beyond what is told
        return None


def _headers(said: dict[str, str]) -> Headers:
    """Return headers in the order of Chromium; of those that came more than once it has the values one below the other."""
    return tuple((name, one) for name, value in said.items() if not name.startswith(":") for one in value.split("\n"))


def _as_utf8(headers: Headers) -> Headers:
    """Return headers that say of a text what it is now, whatever it was on the wire."""
    return tuple(
        (name, f"{value.partition(';')[0]}; charset=utf-8") if name.lower() == "content-type" else (name, value)
        for name, value in headers
    )
