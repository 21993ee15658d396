"""How a server of the API refuses a request.

Flows in: words, and a code. Flows out: `Refused`, with the status and the body of the API's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Never

from pydantic import JsonValue

_KINDS: Final = {401: "invalid_request_error", 429: "rate_limit_error"}


class Refused(Exception):
    """The server doesn't take the request."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        code: str | None = None,
        param: str | None = None,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        fault: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        """Of the answer."""
        self.fault = fault
        """Name of the fault that it is; absent: it is none."""
        self._code = code
        self._param = param
        self._kind = kind or _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")

    @property
    def code(self) -> str | None:
        """Of the error; absent where the API gives none."""
        return self._code

    def body(self) -> dict[str, JsonValue]:
        """Return the body of the error, as the API has it."""
        return {"error": {"message": str(self), "type": self._kind, "param": self._param, "code": self._code}}


def refuse(message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> Never:
    """Raise `Refused`."""
    raise Refused(message, status=status, code=code, param=param)
