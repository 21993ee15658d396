"""How a model is asked, besides what it is asked: what the user may choose of a request, and how patient a run is.

Flows in: the words of a command line, or of a caller. Flows out: an `Asking`, checked. Decided here: which fields of a
request are the loop's own and cannot be chosen; that what a server's profile lacks is refused when it is asked for by
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from cellwright.errors import UsageError
from cellwright.model.profile import Profile

_OWN: Final = frozenset(
    {
        "background",
        "conversation",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "previous_response_id",
        "store",
        "stream",
        "tool_choice",
        "tools",
    }
)
"""Fields that the loop needs as it sends them."""


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """How patient a run is with its model server."""

    attempts: int = 8
    """Requests for one response, the first among them."""
    most_s: float = 300.0
    """Seconds that are waited between them, in all."""
    first_s: float = 0.5
    """The longest first wait where the server does not say how long; the next ones double."""
    longest_s: float = 60.0
    """Longest wait of one's own choice."""
    idle_s: float = 300.0
    """Seconds without an event, after which a stream counts as broken off."""
    total_s: float = 1800.0
    """Seconds that one request may take."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:  # also what is no number
                raise UsageError(f"A request cannot be made with {name}={value:g}. Nothing was sent. Give more than 0.")


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How a model is asked."""

    streams: bool = True
    """Whether a response comes in pieces, where the server can."""
    chains: bool = False
    """Whether the server stores the conversation, and is sent only what is new."""
    custom_tools: bool = False
    """Whether the model writes code as plain text instead of in JSON."""
    compact_threshold: int | None = None
    """Tokens beyond which the server shortens the conversation; absent: it does not."""
    effort: str | None = None
    """How much the model reasons, in the server's words."""
    service_tier: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further fields of the request; objects are merged into those that are there."""
    retrying: Retrying = field(default_factory=Retrying)
    per_second: float | None = None
    """Requests a second that all runs of this process together send to the server; absent: as many as come."""

    def __post_init__(self) -> None:
        if taken := sorted(_OWN & self.extra.keys()):
            raise UsageError(
                f"A request's {', '.join(taken)} cannot be chosen: the loop needs {'it' if len(taken) == 1 else 'them'} as it sends "
                "them. Nothing was sent. Leave it out."
            )
        if self.per_second is not None and not self.per_second > 0:
            raise UsageError(
                f"With {self.per_second:g} requests a second nothing is ever asked. Nothing was sent. Give more than 0."
            )

    def must_fit(self, profile: Profile) -> None:
        """Refuse what was asked for by name and the server cannot do.

        Raises:
            UsageError: Something is.
        """
        wanted = {
            "goes on from responses that it stored (--chain)": self.chains and not profile.chaining,
            "takes custom tools (--custom-tools)": self.custom_tools and not profile.custom_tools,
            "shortens conversations (--compact-threshold)": self.compact_threshold is not None
            and not profile.compaction,
        }
        for what, is_missing in wanted.items():
            if is_missing:
                raise UsageError(
                    f"This model server is not one that {what}, says its profile {profile.name!r}. Nothing was sent. Leave the option "
                    "out, have `cellwright probe` ask the server, or name another --profile."
                )


def merged(base: Mapping[str, JsonValue], more: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return an object with another merged into it: objects into objects, lists behind lists, anything else instead."""
    whole = dict(base)
    for name, value in more.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            whole[name] = merged(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            whole[name] = [*before, *(one for one in value if one not in before)]
        else:
            whole[name] = value
    return whole
