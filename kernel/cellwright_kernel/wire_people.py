"""What crosses the line when a cell asks a person.

Flows in: nothing; these are types. Flows out: the same types on both sides. Decided here: how long a question and an answer may be,
and how many questions a cell may put; the inside refuses more, and the outside does not believe it.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from cellwright_kernel.wire_value import Count, Value

QUESTION_CHARS: Final = 2000
"""Most characters of a question."""
ANSWER_CHARS: Final = 20_000
"""Most characters of an answer."""
QUESTIONS: Final = 20
"""Most questions that one cell may put."""


class PersonAskedEvent(Value):
    """The cell asks a person. The outside answers at `POST /questions/NUMBER`; until then the cell's deadline does not run."""

    type: Literal["person_asked"] = "person_asked"
    number: Count
    """Names this question among those of the session's kernel host."""
    question: str = Field(min_length=1, max_length=QUESTION_CHARS)
    """As the cell put it."""


class QuestionDroppedEvent(Value):
    """Nobody inside waits for an answer any more: the code was interrupted, or has ended."""

    type: Literal["question_dropped"] = "question_dropped"
    number: Count
    """Number of the question."""


class PersonAnswer(Value):
    """What the outside says: the person's answer; or a sentence, why there is none."""

    text: str | None = Field(default=None, max_length=ANSWER_CHARS)
    refused: str | None = None
