"""What can go wrong with a model's server, by name: one registry, as data.

Flows in: nothing; these are values. Flows out: `FAULTS`, each with a sentence, where it can happen, and its effect; and
`PlannedFault`, one that is to happen, as it is written after `--fault` and in scripts. Decided here: which faults there are. How an
effect is brought about is in `faulting.py`.

A fault comes before its turn, not in its place: when it has happened as often as it shall, the turn is played as it was written. Where a
client had the whole turn in spite of it, it has had the turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from cellwright.errors import UsageError

Applies = Literal["both", "streamed", "whole"]
"""To responses of which kind: streamed ones, those that come whole, or both."""

When = Literal["always", "images", "custom_tools", "chained"]
"""Requests of which kind it meets: all; those with a picture in a tool's output; that offer a custom tool; that have a
`previous_response_id`."""


@dataclass(frozen=True)
class Refusal:
    """The request is refused, as the API does it."""

    status: int
    code: str | None
    message: str
    kind: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)
    when: When = "always"


@dataclass(frozen=True)
class OddBody:
    """There is a body, and it is none of the API's."""

    status: int
    content_type: str
    text: str | None
    """Absent: the right one."""


@dataclass(frozen=True)
class Cut:
    """The response ends where it should not."""

    at: Literal["nothing", "start", "arguments", "end", "after"]
    """Before any byte; after the head; in a call's arguments; before the last event; after it."""
    is_abrupt: bool = True
    """Whether the connection is lost; else the body ends as if it were whole."""


@dataclass(frozen=True)
class Slow:
    """The response takes its time."""

    is_endless: bool
    """Whether nothing more comes after its beginning; else each piece comes late."""
    seconds: float
    """Of silence, or between two pieces."""


@dataclass(frozen=True)
class OddEvents:
    """The stream has other events than it should."""

    how: Literal["error", "unknown", "only_completed", "done_marker"]


@dataclass(frozen=True)
class OddOutput:
    """The response says something else, or of itself something else: `outputs.py` has it by the fault's name."""

    is_turn: bool = False
    """Whether it is the turn all the same; else the turn is still to come when the response was taken."""


Effect: TypeAlias = Refusal | OddBody | Cut | Slow | OddEvents | OddOutput


@dataclass(frozen=True)
class Fault:
    """One thing that can go wrong."""

    name: str
    sentence: str
    effect: Effect
    applies: Applies = "both"
    times: int | None = 1
    """How often it happens in a conversation unless said otherwise; absent: every time."""


_HTML: Final = "<!DOCTYPE html><html><head><title>Bad gateway</title></head><body><h1>Bad gateway</h1></body></html>"
_SLOW_DOWN: Final = "Rate limit reached for requests. Please try again later."


def _limited(**headers: str) -> Refusal:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Refusal(429, "rate_limit_exceeded", _SLOW_DOWN, "requests", named)


def _server(status: int, message: str) -> Refusal:
    return Refusal(status, None, message, "server_error")


FAULTS: Final[tuple[Fault, ...]] = (
    # the request is refused
    Fault("rate_limited", "Status 429 with `Retry-After: 1`.", _limited(retry_after="1")),
    Fault("rate_limited_ms", "Status 429 with `retry-after-ms: 20`.", _limited(retry_after_ms="20")),
    Fault("rate_limited_silent", "Status 429 that does not say how long to wait.", _limited()),
    Fault(
        "quota_spent",
        "Status 429 with the code `insufficient_quota`: waiting does not help.",
        Refusal(429, "insufficient_quota", "You exceeded your current quota.", "insufficient_quota"),
        times=None,
    ),
    Fault("server_error", "Status 500.", _server(500, "The server had an error while processing your request.")),
    Fault("bad_gateway", "Status 502 with the API's error body.", _server(502, "Bad gateway.")),
    Fault("unavailable", "Status 503.", _server(503, "The engine is currently overloaded.")),
    Fault("gateway_timeout", "Status 504.", _server(504, "The gateway waited too long.")),
    Fault("overloaded", "Status 529, as overloaded servers behind a proxy say it.", _server(529, "Overloaded.")),
    Fault(
        "request_timeout", "Status 408.", Refusal(408, None, "The request took too long to arrive.", "timeout_error")
    ),
    Fault(
        "unauthorized",
        "Status 401 with the code `invalid_api_key`.",
        Refusal(401, "invalid_api_key", "Incorrect API key provided."),
        times=None,
    ),
    Fault(
        "model_not_found",
        "Status 404 with the code `model_not_found`.",
        Refusal(404, "model_not_found", "The model does not exist or you do not have access to it."),
        times=None,
    ),
    Fault(
        "bad_request", "Status 400 without a code.", Refusal(400, None, "The request is not understood."), times=None
    ),
    Fault(
        "context_too_long",
        "Status 400 with the code `context_length_exceeded`.",
        Refusal(400, "context_length_exceeded", "Your input exceeds the context window of this model."),
    ),
    Fault(
        "images_refused",
        "Status 400 for every request with a picture in a tool's output.",
        Refusal(400, "invalid_value", "Images are not supported in tool outputs by this model.", when="images"),
        times=None,
    ),
    Fault(
        "custom_tools_refused",
        "Status 400 for every request that offers a custom tool.",
        Refusal(400, "invalid_value", "Custom tools are not supported by this model.", when="custom_tools"),
        times=None,
    ),
    Fault(
        "response_forgotten",
        "Status 400 with the code `previous_response_not_found`, where the request names a response.",
        Refusal(400, "previous_response_not_found", "Previous response not found.", when="chained"),
    ),
    # what comes is not the API's
    Fault("not_json", "Status 200, and a body that is not JSON.", OddBody(200, "application/json", '{"id": "resp_')),
    Fault("empty_body", "Status 200, and no body at all.", OddBody(200, "application/json", "")),
    Fault("html_ok", "Status 200, and a page of HTML.", OddBody(200, "text/html; charset=utf-8", _HTML)),
    Fault("html_bad_gateway", "Status 502, and a page of HTML.", OddBody(502, "text/html; charset=utf-8", _HTML)),
    Fault("wrong_content_type", "The right body, said to be `text/plain`.", OddBody(200, "text/plain", None), "whole"),
    # the connection
    Fault("connection_closed", "The connection is closed before any byte of an answer.", Cut("nothing")),
    Fault("cut_at_start", "The connection is lost after the head of the answer.", Cut("start")),
    Fault("cut_in_arguments", "The connection is lost in the middle of a call's arguments.", Cut("arguments")),
    Fault("cut_before_completed", "The connection is lost after the last item, before the last event.", Cut("end")),
    Fault("cut_after_completed", "The connection is lost right after `response.completed`.", Cut("after"), "streamed"),
    Fault("ends_early", "The body ends in the middle as if it were whole.", Cut("arguments", is_abrupt=False)),
    Fault(
        "stalled",
        "Nothing comes after the beginning, for ten minutes or the seconds that are given; then the connection is lost.",
        Slow(is_endless=True, seconds=600.0),
    ),
    Fault(
        "slow_tokens", "Each event comes late, by 0.05 s or the seconds that are given.", Slow(False, 0.05), "streamed"
    ),
    # events
    Fault("error_event", "The stream has an `error` event, and ends.", OddEvents("error"), "streamed"),
    Fault(
        "unknown_events",
        "The stream has comments and events of types that nobody knows.",
        OddEvents("unknown"),
        "streamed",
    ),
    Fault("only_completed", "The stream has its last event only.", OddEvents("only_completed"), "streamed"),
    Fault(
        "done_marker", "The stream ends with `data: [DONE]`, as older APIs' do.", OddEvents("done_marker"), "streamed"
    ),
    # how the response ends
    Fault("response_failed", "The response has the status `failed`, with the code `server_error`.", OddOutput()),
    Fault(
        "failed_rate_limited", "The response has the status `failed`, with the code `rate_limit_exceeded`.", OddOutput()
    ),
    Fault("response_cancelled", "The response has the status `cancelled`.", OddOutput()),
    Fault("never_finished", "The response has the status `in_progress`, and no output.", OddOutput(), "whole"),
    Fault(
        "out_of_tokens",
        "The response is `incomplete` by `max_output_tokens`, and its last call is half written.",
        OddOutput(),
    ),
    Fault("content_filtered", "The response is `incomplete` by `content_filter`.", OddOutput()),
    Fault("no_usage", "The response has no usage.", OddOutput(is_turn=True)),
    Fault("usage_without_details", "The usage has its totals only.", OddOutput(is_turn=True)),
    # what the model says
    Fault("malformed_arguments", "A call's arguments are not JSON.", OddOutput()),
    Fault("arguments_not_object", "A call's arguments are a list.", OddOutput()),
    Fault("no_code", "A call's arguments are an empty object.", OddOutput()),
    Fault("extra_argument", "A call's arguments have one more than the tool takes.", OddOutput()),
    Fault("unknown_tool", "A call is of a tool that was not offered.", OddOutput()),
    Fault("one_bad_call", "There is one call more, whose arguments are not JSON.", OddOutput()),
    Fault("empty_call_id", "A call's id is empty.", OddOutput()),
    Fault("duplicate_call_ids", "Two calls of the response have the same id.", OddOutput()),
    Fault(
        "reused_call_id", "A call has the id that a call of an earlier turn had; from the second turn on.", OddOutput()
    ),
    Fault("foreign_call", "There is a call of a built-in tool that was not offered.", OddOutput()),
    Fault("commentary_only", "There is only commentary: neither a call nor a final answer.", OddOutput()),
    Fault("reasoning_only", "There is only reasoning.", OddOutput()),
    Fault("empty_output", "There is nothing at all.", OddOutput()),
    Fault("refused", "The model refuses.", OddOutput()),
)
"""Every fault, in the order of the manual."""

BY_NAME: Final[Mapping[str, Fault]] = {fault.name: fault for fault in FAULTS}

_PLANNED: Final = re.compile(r"(?P<name>[a-z_]+)(?:@(?P<turn>\d+|\*))?(?:x(?P<times>\d+|\*))?")


@dataclass(frozen=True)
class PlannedFault:
    """A fault that is to happen."""

    name: str
    turn: int | None = 1
    """Before which turn, from 1; absent: before each."""
    times: int | None = 1
    """How often, in one conversation and before one turn; absent: every time."""
    seconds: float | None = None
    """Of those that take time; absent: as long as it usually does."""

    def __post_init__(self) -> None:
        fault_named(self.name)

    @property
    def fault(self) -> Fault:
        """What happens."""
        return fault_named(self.name)

    @classmethod
    def parse(cls, text: str) -> PlannedFault:
        """Read `NAME[@TURN][xTIMES]`; `*` stands for each turn, and for every time.

        Raises:
            UsageError: It is not written so, or there is no such fault.
        """
        match = _PLANNED.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"{text!r} is not a fault as NAME[@TURN][xTIMES], like rate_limited@2x3. Nothing was started. "
                "`cellwright emulate --list-faults` lists the names."
            )
        at, times = match["turn"], match["times"]
        usual = fault_named(match["name"]).times
        return cls(
            match["name"],
            1 if at is None else None if at == "*" else int(at),
            usual if times is None else None if times == "*" else int(times),
        )

    @classmethod
    def here(cls, text: str, turn: int | None) -> PlannedFault:
        """Read `NAME [xTIMES]` where the turn is known by the place it stands at; raises as `parse`."""
        if "@" in text:
            raise UsageError(
                f"{text!r} stands at its turn, and cannot name another. Nothing was started. Leave out the @."
            )
        plan = cls.parse("".join(text.split()))
        return cls(plan.name, turn, plan.times)


def fault_named(name: str) -> Fault:
    """Return a fault.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in BY_NAME:
        near = [known for known in BY_NAME if name and (name in known or known in name)]
        hint = f" Perhaps: {', '.join(near)}." if near else ""
        raise UsageError(
            f"There is no fault {name!r}. Nothing was started.{hint} `cellwright emulate --list-faults` lists them all."
        )
    return BY_NAME[name]
