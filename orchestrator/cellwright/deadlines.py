"""How long a cell may take.

Flows in: its code, and the Spec of its session. Flows out: seconds; or the sentence that says why it gets none. Decided
here: that code asks for more time in its first line, `# timeout_s=600` or `// timeout_s=600`, since the guide's clients and tools send
nothing but code, and one way serves all drivers; that what is asked beyond the session's limit is refused, never cut
down in silence; and that a first line which is meant to ask is taken or refused in words, never ignored.
"""

from __future__ import annotations

import re
from typing import Final

from cellwright.errors import UsageError
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Language

COMMENT: Final[dict[Language, str]] = {"python": "#", "javascript": "//"}
"""What a comment begins with."""
_ASKED: Final = re.compile(r"(#+|//+)[ \t]*timeout_s(?:[ \t]*[=:]|(?=[ \t]+[-+.]?\d))[ \t]*(.*)", re.IGNORECASE)
"""A first line that is meant to ask, and what it asks for."""
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)[ \t]*(?:(?:#|//).*)?", re.ASCII)
"""What can be asked for; a comment of its own may follow."""


def asked_s(code: str, language: Language) -> float | None:
    """Return the seconds that code asks for in its first line that is not empty; None when it asks for none, or for no number."""
    found = _SECONDS.fullmatch(_asked(code, language) or "")
    return float(found[1]) if found and float(found[1]) > 0 else None


def how_to_ask(language: Language) -> str:
    """Return the first line of code that asks for ten minutes."""
    return f"{COMMENT[language]} timeout_s=600"


def deadline_of(code: str, language: Language, spec: Spec) -> float:
    """Return the seconds until a cell is interrupted, unless its driver says otherwise."""
    return asked_s(code, language) or spec.cell_deadline_s


def too_long(code: str, language: Language, spec: Spec) -> str | None:
    """Return what is to be said of code that asks for more than its session's limit, or for what is no number; else None."""
    asked, words = asked_s(code, language), _asked(code, language)
    if asked is None and words is not None:
        return (
            f"The code was not executed: its first line asks for {words[:40]!r} seconds. Write a number, such as "
            f"`{how_to_ask(language)}`; a cell of this session may take {spec.longest_s:g} s."
        )
    if asked is None or asked <= spec.longest_s:
        return None
    return (
        f"The code was not executed: it asks for {asked:g} s, and a cell of this session may take {spec.longest_s:g} s. Ask for "
        "less, or do the work in several cells: variables stay from one to the next."
    )


def _asked(code: str, language: Language) -> str | None:
    """Return what stands in a number's place where the first line is meant to ask; None where it is not."""
    first = code.lstrip().partition("\n")[0].rstrip()
    found = _ASKED.fullmatch(first)
    return found[2] if found and found[1].startswith(COMMENT[language]) else None


def check_deadline(deadline_s: float, spec: Spec) -> None:
    """Return when a driver may give a cell so many seconds.

    Raises:
        UsageError: It is more than the session's limit.
    """
    if deadline_s > spec.longest_s:
        raise UsageError(
            f"A deadline of {deadline_s:g} s is more than the {spec.longest_s:g} s that a cell of this session may take. "
            "Nothing ran. Give a shorter one, or open the session with a larger --deadline-limit."
        )
