"""Does the X server answer? One that was stopped, or hangs, lets everybody wait without end.

Flows in: a display's name. Flows out: yes or no, within a bound; or that it is there, which a refusal does not say. Decided here: what is asked, namely a new connection's
first answer, which a sound server gives in 0.2 ms whatever windows are open; python-xlib would wait for it without end. A
refusal is an answer, and so is that nobody is there: who wants to connect is told that at once.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from typing import Final

_LOCAL: Final = re.compile(r":(\d+)(\.\d+)?")
_HELLO: Final = (b"l\0" if sys.byteorder == "little" else b"B\0") + (11).to_bytes(2, sys.byteorder) + bytes(8)
"""The protocol's first message: byte order, version 11.0, no authorization."""


def answers(display: str, within_s: float) -> bool:
    """Return False if a server is there and says nothing to a new client for `within_s` seconds.

    Args:
        display: Such as `:7`; of one that is elsewhere nothing is known, and True is returned.
        within_s: The end of the wait, which an interrupt ends too.
    """
    local = _LOCAL.fullmatch(display)
    return local is None or _said(local[1], within_s) is not None


def is_there(display: str, within_s: float) -> bool:
    """Return True if a server answers a new client; one that is just ending lets it wait until it is gone.

    Args:
        display: Such as `:7`; it must be a local one.
        within_s: The end of the wait.
    """
    local = _LOCAL.fullmatch(display)
    return local is not None and bool(_said(local[1], within_s))


def _said(number: str, within_s: float) -> bytes | None:
    """Return the first byte that a server says to a new client: none if it refuses, or is not there; None when the time is over."""
    end = time.monotonic() + within_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.settimeout(within_s)
            asking.connect(f"/tmp/.X11-unix/X{number}")  # noqa: S108 - X's own place
            asking.sendall(_HELLO)
            asking.settimeout(max(0.001, end - time.monotonic()))
            return asking.recv(1)
        except (TimeoutError, BlockingIOError):  # the latter when as many as it lets wait for it do already
            return None
        except OSError:
            return b""
