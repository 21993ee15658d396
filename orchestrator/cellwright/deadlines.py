"""How long a cell may take.

Flows in: its code, and the Spec of its session. Flows out: seconds; or the sentence that says why it gets none. Decided
here: that code asks for more time in its first line, `# timeout_s=600` or `// timeout_s=600`, since the guide's clients and tools send
nothing but code, and one way serves all drivers; and that what is asked beyond the session's limit is refused, never cut
down in silence.
"""

from __future__ import annotations

import re
from typing import Final

from cellwright.errors import UsageError
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Language

COMMENT: Final[dict[Language, str]] = {"python": "#", "javascript": "//"}
"""What a comment begins with."""
_ASKED: Final = re.compile(r"[ \t]*(#|//)[ \t]*timeout_s[ \t]*=[ \t]*(\d{1,9}(?:\.\d{1,9})?)[ \t\r]*", re.ASCII)


_WORD: Final = re.compile(r"[ \t]*(#|//)[ \t]*timeout_s[ \t]*=[ \t]*(\S*)\s*")
"""The same with anything in a number's place."""


def asked_s(code: str, language: Language) -> float | None:
    """Return the seconds that code asks for in its first line; None when it asks for none."""
    found = _ASKED.fullmatch(code.partition("\n")[0])
    return float(found[2]) if found and found[1] == COMMENT[language] and float(found[2]) > 0 else None


def how_to_ask(language: Language) -> str:
    """Return the first line of code that asks for ten minutes."""
    return f"{COMMENT[language]} timeout_s=600"


def deadline_of(code: str, language: Language, spec: Spec) -> float:
    """Return the seconds until a cell is interrupted, unless its driver says otherwise."""
    return asked_s(code, language) or spec.cell_deadline_s


def too_long(code: str, language: Language, spec: Spec) -> str | None:
    """Return what is to be said of code that asks for more than its session's limit, or for what is no number; else None."""
    asked = asked_s(code, language)
    word = _WORD.fullmatch(code.partition("\n")[0])
    if asked is None and word is not None and word[1] == COMMENT[language]:
        return (
            f"The code was not executed: its first line asks for {word[2][:40]!r} seconds. Write a number, such as "
            f"`{how_to_ask(language)}`; a cell of this session may take {spec.longest_s:g} s."
        )
    if asked is None or asked <= spec.longest_s:
        return None
    return (
        f"The code was not executed: it asks for {asked:g} s, and a cell of this session may take {spec.longest_s:g} s. Ask for "
        "less, or do the work in several cells: variables stay from one to the next."
    )


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
