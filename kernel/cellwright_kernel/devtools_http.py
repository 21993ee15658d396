"""What Chromium tells over HTTP beside DevTools' own connection: its versions, its pages, the way to that connection.

Flows in: the address of DevTools, a path. Flows out: JSON. Decided here: that no proxy is asked, since this is loopback; how
much is read; and that the answer is a stranger's: who asks for more than an address checks its shape.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any, Final

_BYTES: Final = 1024**2


def told(address: str, path: str, within_s: float) -> Any:  # noqa: ANN401 - any JSON
    """Return what is said at a path, such as `/json/list`.

    Raises:
        OSError: nothing answers in time.
        ValueError: it is no JSON, or too long.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{address}{path}", timeout=within_s) as response:
        return json.loads(response.read(_BYTES))


def socket_url(address: str, within_s: float) -> str:
    """Return where DevTools' own connection is to be opened.

    Raises:
        OSError: nothing answers in time.
        ValueError: what answers is no DevTools.
    """
    said = told(address, "/json/version", within_s)
    url = said.get("webSocketDebuggerUrl") if isinstance(said, dict) else None
    if not isinstance(url, str):
        raise ValueError(f"What answers at {address} is no DevTools.")  # noqa: TRY004 - it was said by somebody else
    return url
