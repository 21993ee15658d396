"""What a model server's refusal means, in words.

Flows in: an error of the SDK's. Flows out: a `ModelError`: what happened, what it usually means, what is left, what to
do. Decided here: those words; that the key is never among them, unless it is too short to be one; and which servers'
words for "too long" are the API's `context_length_exceeded`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import openai

from cellwright.errors import ModelError

NO_KEY: Final = "not-needed"
"""What the SDK is given for a server that wants no key; it insists on one."""
_KEY_CHARS: Final = 8
"""Shortest key that is kept out of messages: a shorter one is none (`k`, `none`), and would tear other words apart."""
_KEY: Final = re.compile(r"\b(sk|sess)-[A-Za-z0-9_*.-]{6,}")
_MESSAGE_CHARS: Final = 800
_LEFT: Final = "What was executed before is recorded, and nothing was executed because of this request."
_TOO_LONG: Final = re.compile(
    r"context[ _](?:length|window|size)|maximum context|too many (?:input )?tokens|prompt is too long", re.IGNORECASE
)


@dataclass(frozen=True)
class Words:
    """What is said of one model at one server."""

    model: str
    base_url: str
    key: str

    def failed(self, error: Exception, *, tries: int, waited_s: float, may_pass: bool) -> ModelError:
        """Return the error of ours; raise it without its cause, which holds the request, and with it the key."""
        after = f" It was asked {tries} times." if tries > 1 else ""
        status: int | None = None
        match error:
            case openai.APIStatusError():
                said, status = self._refused(error), error.status_code
            case openai.APIConnectionError():
                said = (
                    f"{self.what(error)}. Usually the address is wrong or the network is down. {_LEFT} Check --base-url and the "
                    "connection."
                )
            case _:
                said = (
                    f"{self.what(error)}. Usually a passing fault of the server, or one that speaks another dialect. {_LEFT} Try "
                    "again."
                )
        return ModelError(
            said.replace(f". {_LEFT}", f".{after} {_LEFT}", 1),
            refused_with=status,
            code=code_of(error),
            may_pass=may_pass,
            waited_ms=round(waited_s * 1000),
        )

    def what(self, error: Exception) -> str:
        """Return what happened, as a sentence without its end."""
        match error:
            case openai.APIStatusError():
                body = error.body if isinstance(error.body, dict) else {}
                said = self.without_key(str(body.get("message") or error.message))
                return f"The model server refused the request with status {error.status_code}: {said}"
            case openai.APITimeoutError():
                return f"The model server at {self.base_url} did not answer in time"
            case openai.APIConnectionError():
                cause = self.without_key(str(error.__cause__ or error)) or type(error).__name__
                return f"The model server at {self.base_url} could not be reached: {cause}"
            case _:
                return f"The model server broke off: {self.without_key(str(error)) or type(error).__name__}"

    def without_key(self, text: str) -> str:
        """Return a text of the server's, bounded, without the key or anything that looks like one."""
        if len(self.key) >= _KEY_CHARS and self.key != NO_KEY:
            text = text.replace(self.key, "********")
        return _KEY.sub("********", text)[:_MESSAGE_CHARS].rstrip(" .")

    def _refused(self, error: openai.APIStatusError) -> str:
        means, do = self._advice(error)
        return f"{self.what(error)}. {means} {_LEFT} {do}"

    def _advice(self, error: openai.APIStatusError) -> tuple[str, str]:
        """Return what a refusal usually means, and what to do."""
        match code_of(error), error.status_code:
            case "script_expectation_failed", _:
                advice = ("What was answered is not what the script was written for.", "See `cellwright show`.")
            case "script_is_over", _:
                advice = ("The emulator's script has no turn for this request.", "Add one to it.")
            case "context_length_exceeded", _:
                advice = (
                    "The conversation is longer than the model can read.",
                    "Try a smaller task, or another model.",
                )
            case _, 401 | 403:
                advice = (f"The key is missing, wrong, or may not use {self.model!r}.", "Check OPENAI_API_KEY.")
            case _, 404:
                advice = ("Usually the model's name or --base-url is wrong.", "Check --model and --base-url.")
            case "insufficient_quota", 429:
                advice = ("The account's quota is spent; waiting does not help.", "Check the account's limits.")
            case _, 429:
                advice = ("Too many requests, or the quota is spent.", "Wait, or check the account's limits.")
            case _, status if status >= 500:
                advice = ("A fault of the server, also after retries.", "Try again later.")
            case _:
                advice = ("Usually the server doesn't know a part of the request.", "See its message.")
        return advice


def code_of(error: Exception) -> str | None:
    """Return the API's word for an error; None when there is none."""
    code = getattr(error, "code", None)
    if isinstance(error, openai.APIError) and code != "context_length_exceeded":
        status = getattr(error, "status_code", 400)
        if status in (400, 413, 422) and _TOO_LONG.search(str(error.message)):
            return "context_length_exceeded"
    return str(code)[:100] if code is not None else None


def is_of_script(code: str | None) -> bool:
    """Return whether an error tells of an emulator's script, and so nothing of what the server can do."""
    return code is not None and (code == "script" or code.startswith("script_"))
