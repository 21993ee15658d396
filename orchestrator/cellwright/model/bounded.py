"""How much a model server may send for one request, and what it is called when less comes than it began to send.

Flows in: responses of an HTTP client, before their bodies are read. Flows out: the same, which break off where there is
too much of them, or the connection is lost. Decided here: how much that is; that nothing is taken that comes packed,
since none is asked for and a few bytes could be unpacked to any size; and that a server which began to answer was
reached, whatever became of the connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, cast

import httpx2

from cellwright.model.retrying import BrokenOff

MOST_BYTES: Final = 128 * 1024 * 1024
"""Of one response. 128,000 tokens, each an event of its own, come to 40 MB."""
HEADERS: Final = {"Accept-Encoding": "identity"}
"""With which nothing comes packed."""


async def bound(response: httpx2.Response) -> None:
    """Have a response break off where it is too long, or packed."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise BrokenOff(f"it sent its answer packed ({packed[:40]}), which it was asked not to")
    response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream))


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = 0
        try:
            async for chunk in self._stream:
                came += len(chunk)
                if came > MOST_BYTES:
                    raise BrokenOff(f"it sent more than {MOST_BYTES} bytes for one response")
                yield chunk
        except httpx2.TimeoutException:
            raise
        except httpx2.TransportError as error:
            after = "after part of the response had come, which is thrown away" if came else "before the response came"
            raise BrokenOff(f"the connection was lost {after} ({str(error) or type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._stream.aclose()
