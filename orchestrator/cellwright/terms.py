"""On what terms a run is driven, whatever its task: what may be spent, what is sent of its history, in which words, and what its end must satisfy.

Flows in: what the user said, or the record of an earlier session of the run. Flows out: values, and the record of them. Decided here:
that a resumed run goes on with the terms it had; but for the command that verifies it, which is the user's to give each time: a run
may have come from somebody else, and what its record names is never executed outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue

from cellwright.budget import Budget
from cellwright.errors import UsageError
from cellwright.history import Pictures
from cellwright.people import People
from cellwright.prices import Prices
from cellwright.record.records import TermsSet
from cellwright.steering import Steering
from cellwright.stuck import Patience
from cellwright_kernel.wire import Language

ALL: Final[Literal["all"]] = "all"
"""No picture is ever left out."""
_PICTURES_CHARS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Sending:
    """What is sent to the model, and in which words."""

    pictures: Pictures | None = field(default_factory=Pictures)
    """How many pictures; absent: all."""
    compact_at: int | None = None
    """Estimated tokens of a request above which the model sums up first; absent: it never does so by itself."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Texts that take the place of our prompts, by the name of their file."""

    def __post_init__(self) -> None:
        if self.compact_at is not None and self.compact_at <= 0:
            raise UsageError(f"A summary at {self.compact_at} tokens is one each turn. Nothing was started. Give more.")


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What must hold before a run is done, when the model says that it is."""

    result_schema: JsonValue = None
    """The final answer is JSON that satisfies this JSON schema; absent: it is free."""
    verify: str | None = None
    """A command of the user's, which succeeds on this machine, in the run's folder; absent: none."""
    verify_cell: str | None = None
    """Code of a cell of the same session that ends well, and not with False; absent: none."""
    verify_language: Language = "python"
    """Of that code."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On what terms a run is driven, whatever its task."""

    budget: Budget = field(default_factory=Budget)
    """What may be spent."""
    languages: tuple[Language, ...] = ("python", "javascript")
    """What the model may write: `exec_py`, `exec_js` or both are offered."""
    patience: Patience = field(default_factory=Patience)
    """How often the same may happen."""
    prices: Prices = field(default_factory=Prices)
    """What models cost."""
    sending: Sending = field(default_factory=Sending)
    """What is sent of the history, and in which words."""
    checks: Checks = field(default_factory=Checks)
    """What must hold before it is done."""
    people: People = field(default_factory=People)
    """Who can be asked; where somebody can, the model is offered `ask_user`."""
    steering: Steering = field(default_factory=Steering)
    """What a person wants of it while it runs."""


@dataclass(frozen=True, kw_only=True)
class TermsGiven:
    """Terms that were said this time; what is absent stays as it was."""

    pictures: str | None = None
    """As `pictures_from` reads it."""
    compact_at: int | None = None
    """0: never."""
    prompts: Mapping[str, str] | None = None
    result_schema: JsonValue = None
    verify: str | None = None
    verify_cell: str | None = None
    verify_language: Language = "python"

    def applied(self, sending: Sending, checks: Checks) -> tuple[Sending, Checks]:
        """Return terms with these changes; raises UsageError where one means nothing."""
        if self.pictures is not None:
            sending = replace(sending, pictures=pictures_from(self.pictures))
        if self.compact_at is not None:
            sending = replace(sending, compact_at=self.compact_at or None)
        if self.prompts is not None:
            sending = replace(sending, prompts=self.prompts)
        if self.result_schema is not None:
            checks = replace(checks, result_schema=self.result_schema)
        if self.verify is not None:
            checks = replace(checks, verify=self.verify)
        if self.verify_cell is not None:
            checks = replace(checks, verify_cell=self.verify_cell, verify_language=self.verify_language)
        return sending, checks


def pictures_from(words: str) -> Pictures | None:
    """Return how many pictures MOST:KEPT means, or `all`.

    Raises:
        UsageError: It means nothing.
    """
    if words == ALL:
        return None
    most, colon, kept = words.partition(":")
    if (
        not colon
        or len(words) > _PICTURES_CHARS
        or not (most.isascii() and most.isdigit() and kept.isascii() and kept.isdigit())
    ):
        raise UsageError(
            f"{words[:40]!r} is no number of pictures. Nothing was started. Give MOST:KEPT, 5:1 say, or `all`."
        )
    return Pictures(int(most), int(kept))


def terms_record(sending: Sending, checks: Checks) -> TermsSet:
    """Return the record of terms; what is as usual is absent in it."""
    pictures = ALL if sending.pictures is None else f"{sending.pictures.most}:{sending.pictures.kept}"
    return TermsSet(
        pictures=None if sending.pictures == Pictures() else pictures,
        compact_at=sending.compact_at,
        prompts=dict(sending.prompts),
        result_schema=checks.result_schema,
        verify=checks.verify,
        verify_cell=checks.verify_cell,
        verify_language=checks.verify_language if checks.verify_cell is not None else None,
    )


def terms_of(record: TermsSet | None) -> tuple[Sending, Checks]:
    """Return the terms that a record tells of; the command in it is left out."""
    if record is None:
        return Sending(), Checks()
    return (
        Sending(
            pictures=Pictures() if record.pictures is None else pictures_from(record.pictures),
            compact_at=record.compact_at,
            prompts=record.prompts,
        ),
        Checks(
            result_schema=record.result_schema,
            verify_cell=record.verify_cell,
            verify_language=record.verify_language or "python",
        ),
    )
