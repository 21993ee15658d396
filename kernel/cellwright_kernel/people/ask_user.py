"""`ask_user` as cells have it.

Flows in: a question. Flows out: the person's answer. Decided here: how a question reaches the kernel host, that what is asked is a
text of some length, and that the answer is a text with `await` as without.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Generator
from typing import Any, Final

from cellwright_kernel.people.errors import NotAnswered

WHERE: Final = "CELLWRIGHT_QUESTIONS"
"""The environment variable that names the kernel host's socket."""
_QUESTION_CHARS: Final = 2000  # as `wire_people` has it, which kernels do not load; a test holds them together


class Answer(str):
    """What the person said: a text, that may be awaited like any other answer."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return str(self)
        yield  # it is a generator, which has nothing to wait for


def ask_user(question: str) -> Answer:
    """Ask the person at the other end, and wait for the answer; the cell's deadline does not run meanwhile.

    With `await` or without. The event loop stands still while it waits: `await asyncio.to_thread(ask_user, "...")` lets it run.

    Args:
        question: At most 2000 characters.

    Raises:
        NotAnswered: Nobody can be asked in this run, or nobody answered; the message says which.
    """
    if not isinstance(question, str):
        raise TypeError(f"A question is a str, not {type(question).__name__}. Nobody was asked.")
    question = question.encode("utf-8", "replace").decode()
    if not question.strip():
        raise ValueError("The question is empty. Nobody was asked.")
    if len(question) > _QUESTION_CHARS:
        raise ValueError(
            f"The question has {len(question):,} characters, and may have {_QUESTION_CHARS:,}. Nobody was asked. Ask for less at once."
        )
    place = os.environ.get(WHERE)
    if not place:
        raise NotAnswered("Nobody can be asked here: this kernel is not one of a session.")
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(place)
            connection.sendall(json.dumps({"question": question}).encode() + b"\n")
            with connection.makefile("rb") as answer:
                line = answer.readline()  # the kernel host sees to an end
    except OSError as error:
        raise NotAnswered(f"The kernel host was not reached ({error}), so nobody was asked. Try again.") from None
    said: dict[str, Any] = json.loads(line) if line else {"error": "The kernel host gave no answer. Try again."}
    if "error" in said:
        raise NotAnswered(said["error"])
    return Answer(said["text"])
