"""`clipboard` as cells have it.

Flows in: calls. Flows out: the text that was copied; or nothing, once a text can be pasted everywhere on the desktop.
Decided here: how a call reaches its owner, that it ends, and that a text is Unicode: half a surrogate pair is refused
before anything is sent.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Final

from cellwright_kernel.clipboard.errors import MOST_BYTES, ClipboardError, NoText

WHERE: Final = "CELLWRIGHT_CLIPBOARD"
"""The environment variable that names the owner's socket."""
_CALL_S: Final = 25.0
_AGAIN_S: Final = 0.01
_ANEW_S: Final = 0.3
_NO_ANSWER: Final = (
    "The clipboard gave no whole answer. Usually the program that copied, or the display, is busy. Try again; after a "
    "write, look what is there."
)
_REMOVED: Final = (
    "The clipboard cannot be reached: its socket {} is gone. Usually a cell has removed that folder. It is made anew after this "
    "cell, with the text that was copied; try again in the next one."
)


class Clipboard:
    """The desktop's clipboard: what Ctrl+C copies and Ctrl+V pastes, in every program.

    Args:
        place: The owner's socket; absent: the one that the environment names.
    """

    def __init__(self, place: str | None = None) -> None:
        self._place = place

    def read(self, *, primary: bool = False) -> str:
        """Return the text that was copied last, an empty one if there is none.

        Args:
            primary: The selection instead, which the middle button pastes.

        Raises:
            ClipboardError: what was copied is no text, or the program that copied it does not answer.
        """
        return self._asked("read", primary, b"").decode("utf-8", "replace")

    def write(self, text: str, *, primary: bool = False) -> None:
        """Copy a text; it stays there until something else is copied, whatever becomes of this kernel.

        Args:
            text: Any Unicode text, up to 64 MiB.
            primary: Into the selection instead, which the middle button pastes.

        Raises:
            TypeError: it is no `str`.
            ValueError: it is too long, or has half of a surrogate pair.
            ClipboardError: it could not be copied; the clipboard is as it was.
        """
        if not isinstance(text, str):
            raise TypeError(f"A str can be copied, not {type(text).__name__}. The clipboard is as it was.")
        self._asked("write", primary, _in_utf8(text))

    def __repr__(self) -> str:
        return "<clipboard: read(), write(text)>"

    def _asked(self, do: str, primary: bool, text: bytes) -> bytes:
        place = self._place or os.environ.get(WHERE)
        if not place:
            raise ClipboardError("There is no clipboard: this session has no desktop.")
        request: dict[str, Any] = {"do": do, "selection": "PRIMARY" if primary else "CLIPBOARD", "bytes": len(text)}
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CALL_S)
                _connect(connection, place)
                connection.sendall(json.dumps(request).encode() + b"\n" + text)
                with connection.makefile("rb") as answer:
                    line = answer.readline()
                    head: dict[str, Any] = json.loads(line) if line else {"error": _NO_ANSWER, "bytes": 0}
                    came: bytes = answer.read(head["bytes"])
        except FileNotFoundError:
            raise ClipboardError(_REMOVED.format(place)) from None
        except OSError as error:
            raise ClipboardError(
                f"The clipboard cannot be reached ({error}). Usually the desktop is being started again."
            ) from None
        if len(came) < head["bytes"]:
            raise ClipboardError(_NO_ANSWER)
        if "error" in head:
            raise (NoText if head.get("is_no_text") else ClipboardError)(head["error"])
        return came


def _connect(connection: socket.socket, place: str) -> None:
    """Connect; where as many wait as its owner lets wait, which nothing tells the end of, try again until the limit.

    A socket that an earlier cell has removed is just being made anew.
    """
    began = time.monotonic()
    end = began + _CALL_S
    while True:
        try:
            return connection.connect(place)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError("too many calls wait for it") from None
        except FileNotFoundError:
            if time.monotonic() > began + _ANEW_S:
                raise
        time.sleep(_AGAIN_S)


def _in_utf8(text: str) -> bytes:
    try:  # JSON decoded carelessly holds emoji as two halves
        encoded = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()
    except UnicodeError:
        raise ValueError(
            "The text has half of a surrogate pair, which is no character. The clipboard is as it was."
        ) from None
    if len(encoded) > MOST_BYTES:
        raise ValueError(f"The text is longer than {MOST_BYTES >> 20} MiB. The clipboard is as it was.")
    return encoded
