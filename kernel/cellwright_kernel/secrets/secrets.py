"""`secrets` as cells have it.

Flows in: names. Flows out: a placeholder; or nothing, once a value was typed. Decided here: how a call reaches the kernel
host, and that it ends. No value ever comes here.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Final

from cellwright_kernel.secrets.errors import SecretError
from cellwright_kernel.secrets.placeholder import ENCRYPTED, PLACEHOLDER, TYPED

WHERE: Final = "CELLWRIGHT_SECRETS"
"""The environment variable that names the kernel host's socket."""
_CALL_S: Final = 40.0


def refuse_placeholder(text: str) -> None:
    """Return when a text that is to be typed has no placeholder in it.

    Raises:
        SecretError: It has.
    """
    if PLACEHOLDER in text:
        raise SecretError(TYPED)


def refuse_encrypted(header: bytes) -> None:
    """Return when a header that is to be encrypted in here has no placeholder in it.

    Raises:
        SecretError: It has.
    """
    if PLACEHOLDER.encode() in header:
        raise SecretError(ENCRYPTED)


class Secrets:
    """The session's secrets, by name: type(name), header(name)."""

    def type(self, name: str) -> None:
        """Type a secret's value into the field that has the keyboard; no picture shows that field from then on.

        Raises:
            SecretError: it was not typed: there is no such secret, no field has the keyboard, or it is one of a page that the
                secret is not bound to.
        """
        self._asked("type", name)

    def header(self, name: str) -> str:
        """Return what stands for a secret's value in a header of a request that leaves the sandbox unencrypted.

        Such as `{"Authorization": "Bearer " + secrets.header(name)}`. Outside it is replaced by the value, on the way to the
        hosts that the secret is bound to; a request with it to anywhere else, or with it elsewhere, is refused.

        Raises:
            SecretError: there is no such secret, or it is bound to no host.
        """
        return self._asked("header", name)

    def __repr__(self) -> str:
        return "<secrets: type(name), header(name)>"

    def _asked(self, use: str, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"A secret is named by a str, not {type(name).__name__}. Nothing was typed or given.")
        place = os.environ.get(WHERE)
        if not place:
            raise SecretError("This session has no secrets. Whoever starts it gives one with `--secret NAME`.")
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CALL_S)
                connection.connect(place)
                connection.sendall(json.dumps({"use": use, "name": name}).encode() + b"\n")
                with connection.makefile("rb") as answer:
                    line = answer.readline()
        except OSError as error:
            raise SecretError(
                f"The kernel host was not reached ({error}). Look at the screen, and try again."
            ) from None
        said: dict[str, Any] = (
            json.loads(line) if line else {"error": "The kernel host gave no answer. Look at the screen."}
        )
        if "error" in said:
            raise SecretError(said["error"])
        return str(said["text"])
