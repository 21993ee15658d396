"""The tree of errors. What a model's code does wrong is an output; what goes wrong here is one of these.

    CellwrightError
    ├── UsageError                 the caller said something that cannot be done
    │   ├── BadRequest             400  not JSON, wrong types, unknown language
    │   ├── CodeTooLarge           413  more code than a cell may have
    │   ├── FileTooLarge           413  a larger file than goes into or out of a sandbox
    │   └── BadPath                400  a path that leaves the place it must stay in
    ├── AuthError
    │   ├── TokenRefused           401  no token, or another one
    │   └── OriginRefused          403  a web page that is not ours asked
    ├── NotFound                   404
    │   ├── SessionNotFound
    │   ├── RunNotFound
    │   └── FileMissing
    ├── SessionBusy                409  two cells at once in one session
    ├── SessionDiffers             409  one of this id is open, and is not what was asked for
    ├── HoldsSecret                409  a file with the value of a secret was to be given
    ├── SessionClosed              410  it was closed, or its lease ended
    ├── KernelEnded                410  the kernel that somebody is attached to
    ├── AtCapacity                 429  every sandbox is leased
    ├── TooManyRequests            429  more at once, or a second, than the gateway takes
    ├── EnvironmentMissing         503  this machine lacks something; `doctor` says what
    │   └── SandboxUnavailable     503  no sandbox could be started
    ├── SandboxLost                502  the sandbox ended while it was needed
    ├── ModelError                 502  the model server refused, or could not be reached
    ├── ServiceUnreachable         502  no `cellwright serve` answers
    └── RecordError                500
        ├── JournalCorrupt         500  a record does not match its hash
        ├── DiskFull               507  the record could not be written
        └── RunFull                507  the run holds as much as one may

Each leaf has one HTTP status, one exit status and one sentence. A message has four parts: what happened, what it
usually means, what is left, what to do. Decided here: the statuses.
"""

from __future__ import annotations

from typing import ClassVar


class CellwrightError(Exception):
    """Base of every error that is ours."""

    http_status: ClassVar[int] = 500
    exit_status: ClassVar[int] = 1
    sentence: ClassVar[str] = "Something went wrong inside Cellwright."
    """What this kind of error means, for when nothing more is known."""
    retry_after_s: int | None = None
    """Seconds after which the same request may be granted; None: waiting alone does not help."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.sentence)


class UsageError(CellwrightError):
    """The caller said something that cannot be done."""

    http_status = 400
    exit_status = 2
    sentence = "The request cannot be carried out as it stands."


class BadRequest(UsageError):
    """Not JSON, wrong types, unknown language."""

    sentence = "The request could not be read."


class CodeTooLarge(UsageError):
    """More code than a cell may have."""

    http_status = 413
    sentence = "The code is larger than a cell may be."


class FileTooLarge(UsageError):
    """A larger file than goes into or out of a sandbox."""

    http_status = 413
    sentence = "The file is larger than what goes into or out of a sandbox."


class BadPath(UsageError):
    """A path that leaves the place it must stay in."""

    sentence = "The path does not stay inside the sandbox's home."


class AuthError(CellwrightError):
    """The caller is not who may ask this."""

    http_status = 401
    exit_status = 2
    sentence = "The caller may not do this."


class TokenRefused(AuthError):
    """No token, or another one."""

    sentence = "The request carries no valid token."


class OriginRefused(AuthError):
    """A web page that is not ours asked."""

    http_status = 403
    sentence = "Requests from web pages are refused."


class NotFound(CellwrightError):
    """What was named does not exist."""

    http_status = 404
    exit_status = 2
    sentence = "What was asked for does not exist."


class SessionNotFound(NotFound):
    """No session has this id."""

    sentence = "There is no session with this id."


class RunNotFound(NotFound):
    """No run has this id."""

    sentence = "There is no run with this id."


class FileMissing(NotFound):
    """No file has this path."""

    sentence = "There is no file at this path in the sandbox."


class SessionBusy(CellwrightError):
    """Two cells at once in one session."""

    http_status = 409
    sentence = "The session is executing another cell."


class SessionDiffers(CellwrightError):
    """One of this id is open, and is not what was asked for."""

    http_status = 409
    sentence = "There is a session of this id, made from another description."


class HoldsSecret(CellwrightError):
    """A file with the value of a secret was to be given."""

    http_status = 409
    sentence = "The file holds the value of a secret of this session. Usually the model's code wrote it there."


class SessionClosed(CellwrightError):
    """It was closed, or its lease ended."""

    http_status = 410
    sentence = "The session is closed."


class KernelEnded(CellwrightError):
    """The kernel that somebody is attached to."""

    http_status = 410
    sentence = "The kernel has ended, by a restart or otherwise, and its variables are gone. Attach again."


class AtCapacity(CellwrightError):
    """Every sandbox is leased."""

    http_status = 429
    sentence = "Every sandbox is in use."
    retry_after_s = 10


class TooManyRequests(CellwrightError):
    """More requests at once, or a second, than the gateway takes."""

    http_status = 429
    sentence = "The service gets more requests than it takes."

    def __init__(self, message: str | None = None, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EnvironmentMissing(CellwrightError):
    """This machine lacks something that is needed."""

    http_status = 503
    exit_status = 3
    sentence = "This machine lacks something that is needed. Run `cellwright doctor`."


class SandboxUnavailable(EnvironmentMissing):
    """No sandbox could be started."""

    sentence = "No sandbox could be started. Run `cellwright doctor`."


class SandboxLost(CellwrightError):
    """The sandbox ended while it was needed."""

    http_status = 502
    sentence = "The sandbox ended unexpectedly."


class ModelError(CellwrightError):
    """The model server refused, or could not be reached."""

    http_status = 502
    sentence = "The model server gave no usable answer."

    def __init__(
        self,
        message: str | None = None,
        *,
        refused_with: int | None = None,
        code: str | None = None,
        may_pass: bool = False,
        waited_ms: int = 0,
    ) -> None:
        super().__init__(message)
        self.refused_with = refused_with
        """HTTP status with which the server refused; None when it did not, or no answer came."""
        self.code = code
        """The API's word for it, `context_length_exceeded` where any server says so much; None when there is none."""
        self.may_pass = may_pass
        """True where another model, or a later time, may well answer the same request."""
        self.waited_ms = waited_ms
        """What was waited for it, as of a response."""


class ServiceUnreachable(CellwrightError):
    """No `cellwright serve` answers."""

    http_status = 502
    exit_status = 2
    sentence = "No running `cellwright serve` answered."


class RecordError(CellwrightError):
    """The run on disk could not be read or written."""

    sentence = "The run on disk could not be read or written."


class JournalCorrupt(RecordError):
    """A record does not match its hash."""

    sentence = "The journal was changed after it was written."


class DiskFull(RecordError):
    """The record could not be written."""

    http_status = 507
    sentence = "The disk is full; the record could not be written."


class RunFull(RecordError):
    """The run holds as much as one may."""

    http_status = 507
    sentence = "The run holds as much as a run may; nothing more is begun in it."
