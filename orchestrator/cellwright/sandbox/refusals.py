"""What the kernel host refuses -> the error of ours that means the same.

Flows in: the status and body of its answer. Flows out: an error. Decided here: which is which; what it says is a stranger's words
within a sentence of ours.
"""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from cellwright.errors import BadPath, FileMissing, FileTooLarge, SandboxLost, UsageError


class _Refusal(BaseModel):
    error: str


def raise_refusal(status: int, said: str) -> None:
    """Turn the kernel host's refusal into ours.

    Args:
        status: Of its answer.
        said: Its words, cut short; they are shown as its words.

    Raises:
        CellwrightError: The one of ours that means the same.
    """
    match status:
        case 404:
            raise FileMissing(f"There is no file there in the sandbox: {said}")
        case 400 | 403:
            raise BadPath(f"The sandbox refused the path: {said}")
        case 413:
            raise FileTooLarge(f"The sandbox refused the file: {said}")
        case 409:
            raise UsageError(f"The sandbox refused the request: {said}")
        case _:
            raise SandboxLost(f"The kernel host answered with status {status}: {said}")


def sentence_of(body: bytes) -> str:
    """Return what a refusal says; what is none as it is."""
    try:
        return _Refusal.model_validate_json(body).error
    except ValidationError:
        return body.decode("utf-8", "replace")
