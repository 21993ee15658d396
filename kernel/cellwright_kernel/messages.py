"""Jupyter messages as frames on a ZeroMQ socket, and back.

Flows in: frames. Flows out: messages as dictionaries, and which identities stood before them. Decided here: that what
is malformed or wrongly signed is no message; that dates stay the text that they are; and that a socket is asked with
plain numbers. `jupyter_client` and `pyzmq` do the same with dates parsed and flags as enumerations, at thrice the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final

import zmq
from jupyter_client.session import DELIM, Session

_PARTS: Final = ("header", "parent_header", "metadata", "content")
_MALFORMED: Final = (ValueError, TypeError, KeyError, RecursionError)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_SNDMORE: Final = int(zmq.SNDMORE)

Message = dict[str, Any]


def read(session: Session, frames: list[bytes]) -> tuple[list[bytes], Message] | None:
    """Return identities and message, or None for what is no message; code in a kernel can write to its sockets.

    Args:
        session: Knows the key.
        frames: What one receiving gave.
    """
    try:
        at = frames.index(DELIM)
        signature, *parts = frames[at + 1 : at + 6]
        if len(parts) != len(_PARTS) or not compare_digest(signature, session.sign(parts)):
            return None
        message = {name: session.unpack(part) for name, part in zip(_PARTS, parts, strict=True)}
    except _MALFORMED:
        return None
    return (frames[:at], message) if all(isinstance(part, dict) for part in message.values()) else None


def send(socket: zmq.Socket[Any], frames: Sequence[bytes]) -> None:
    """Send one whole message."""
    *first, last = frames
    for frame in first:
        socket.send(frame, _SNDMORE)
    socket.send(last)


def is_waiting(socket: zmq.Socket[Any]) -> bool:
    """Return whether a message can be received.

    A socket's descriptor tells a change once, and both sending and receiving may take that, so it is to be asked after
    either (0.5 µs).
    """
    return bool(socket.getsockopt(_EVENTS) & _POLLIN)  # type: ignore[operator]
