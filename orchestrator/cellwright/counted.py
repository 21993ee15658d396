"""Numbers of things in words.

Flows in: a number, and the word for one of the things. Flows out: both, as a person says them. Decided here: the plural.
"""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`; the noun is one whose plural takes an `s`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
