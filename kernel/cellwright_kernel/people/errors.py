"""What can go wrong with a question to a person.

Flows in: nothing. Flows out: one error; its message says what to do.
"""

from __future__ import annotations


class NotAnswered(RuntimeError):
    """There is no answer: nobody can be asked, nobody answered in time, or the person would not; the message says which."""
