"""What can go wrong with a secret.

Flows in: nothing. Flows out: one error; its message says what to do.
"""

from __future__ import annotations


class SecretError(RuntimeError):
    """The secret was not typed, or no placeholder was given; the message says why."""
