"""What a conformance suite found.

Flows in: named checks. Flows out: a `Report`, or one `Nonconformance` that lists every failure. Decided here: a gap that
was named beforehand may fail, and must: one that passes is told too, so that the list of gaps stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass


class Nonconformance(AssertionError):
    """Some checks did not hold; the message has a line for each."""


@dataclass(frozen=True)
class Report:
    """Which checks held, and which gaps were known."""

    held: tuple[str, ...]
    known_gaps: tuple[str, ...]


Check = Callable[[], Coroutine[object, object, None]]


async def run_checks(checks: Mapping[str, Check], known_gaps: Collection[str]) -> Report:
    """Run every check, whatever the others give.

    Raises:
        Nonconformance: A check failed that is no known gap, or a known gap is none any more.
        ValueError: A known gap names no check.
    """
    if unknown := set(known_gaps) - set(checks):
        raise ValueError(f"These gaps name no check: {', '.join(sorted(unknown))}.")
    held, faults = [], []
    for name, check in checks.items():
        try:
            await check()
        except Exception as error:
            if name not in known_gaps:
                faults.append(f"{name}: {error or type(error).__name__}")
        else:
            held.append(name)
            if name in known_gaps:
                faults.append(f"{name}: holds, and is listed as a known gap")
    if faults:
        raise Nonconformance("\n".join(faults))
    return Report(tuple(held), tuple(known_gaps))


def expect(fact: object, sentence: str) -> None:
    """Fail with a sentence unless the fact holds."""
    if not fact:
        raise AssertionError(sentence)
