"""What Node asks of the secrets -> what the kernel host says.

Flows in: Node's calls of `secrets`. Flows out: a placeholder, or nothing once a value was typed. Decided here: nothing.
"""

from __future__ import annotations

from typing import Any

from cellwright_kernel.secrets.secrets import Secrets


class SecretCalls:
    """Does what Node asks of the secrets."""

    def call(self, name: str, arguments: list[Any]) -> str | None:
        """Do one call."""
        (secret,) = arguments
        if name == "header":
            return Secrets().header(secret)
        Secrets().type(secret)
        return None
