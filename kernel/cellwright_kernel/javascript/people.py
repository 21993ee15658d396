"""What Node asks people -> what they answer.

Flows in: Node's calls of `ask_user`. Flows out: the answer. Decided here: nothing.
"""

from __future__ import annotations

from typing import Any

from cellwright_kernel.people.ask_user import ask_user


class PeopleCalls:
    """Does what Node asks of people."""

    def call(self, name: str, arguments: list[Any]) -> str:
        """Do one call."""
        del name  # there is one
        (question,) = arguments
        return str(ask_user(question))
