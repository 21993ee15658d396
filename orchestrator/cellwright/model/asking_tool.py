"""The tool by which a model asks the user, without a cell: offered where somebody can be asked.

Flows in: a call of it. Flows out: its schema; the question, or the sentence that says why there is none. Decided here: what a model is told
of asking.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from cellwright.model.base import Call, Item
from cellwright.model.tools import Rejected
from cellwright_kernel.wire_people import QUESTION_CHARS

NAME: Final = "ask_user"
"""Of the tool, and of the helper that code has."""
_DESCRIPTION: Final = "Ask the user one question and wait for the answer, which comes back as text. For what you cannot find out yourself and must not guess."

TOOL: Final[Item] = {
    "type": "function",
    "name": NAME,
    "description": _DESCRIPTION,
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"question": {"type": "string", "description": f"At most {QUESTION_CHARS} characters."}},
        "required": ["question"],
        "additionalProperties": False,
    },
}
"""Its schema."""


@dataclass(frozen=True)
class Asks:
    """A call that asks the user."""

    call: Call
    question: str
    type: Literal["asks"] = "asks"


def asked(call: Call) -> Asks | Rejected:
    """Return what a call of the tool asks; or why that cannot be asked, in words that let the model make a better one."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        return Rejected(call, f'The arguments are not JSON ({error}). Nobody was asked. Send {{"question": "..."}}.')
    question = arguments.get("question") if isinstance(arguments, dict) else None
    if not isinstance(question, str) or not question.strip():
        return Rejected(call, 'The arguments have no text "question". Nobody was asked. Send {"question": "..."}.')
    if extra := sorted(set(arguments) - {"question"}):
        return Rejected(call, f'The arguments have more than "question": {", ".join(extra)[:200]}. Nobody was asked.')
    if len(question) > QUESTION_CHARS:
        return Rejected(
            call,
            f"The question has {len(question)} characters; it may have {QUESTION_CHARS}. Nobody was asked. Ask for less at once.",
        )
    return Asks(call, question.encode("utf-8", "replace").decode())
