"""Who may ask the gateway anything.

Flows in: a request's headers, be it for HTTP or for a WebSocket. Flows out: the request, or a refusal of one sentence.
Decided here: everything but `GET /health` needs the token; a request that comes from a web page, or under a name that is not ours (DNS rebinding),
is refused before its body is read. What comes without the token is counted apart, so that it never locks out who has
it; guessing is hopeless against 32 characters, and only kept cheap.
"""

from __future__ import annotations

import fcntl
import hmac
import math
import os
import re
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cellwright.errors import (
    AuthError,
    CellwrightError,
    OriginRefused,
    TokenRefused,
    TooManyRequests,
    UsageError,
)
from cellwright.gateway.request_pace import request_pace
from cellwright.record.folder import make_private

TOKEN_CHARS: Final = 32
"""Fewest characters that a token may have."""
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""What a bearer token consists of (RFC 6750)."""
REFUSED_A_SECOND: Final = 5
"""Requests that are refused with their reason; a client with a wrong token gives up after one."""
HEALTH_A_SECOND: Final = 100
"""Whoever waits for a service to be ready may ask without a pause for some seconds."""


class Guard:
    """ASGI middleware that lets only authorised requests through.

    Args:
        app: What is guarded.
        token: The service token.
        hosts: Values of `Host` and, behind `http://`, of `Origin` that are ours; empty: any host, no origin.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: Collection[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._refused = request_pace(REFUSED_A_SECOND)
        self._health = request_pace(HEALTH_A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on or refuse."""
        if scope["type"] in {"http", "websocket"}:  # a refused WebSocket is answered as HTTP, before it is one
            try:
                self._check(scope)
            except (AuthError, TooManyRequests) as error:
                await refusal(self._counted(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")  # a WebSocket's handshake may repeat them
        if self._hosts and not (hosts and self._hosts.issuperset(hosts)):
            raise OriginRefused("The request names a host that this service is not; it listens for its own names only.")
        if any(origin.removeprefix("http://") not in self._hosts for origin in origins):
            raise OriginRefused("The request comes from a web page (it has an Origin header), and those are refused.")
        if is_health(scope):
            if wait_s := self._health.take():
                raise TooManyRequests(
                    "GET /health is asked without a pause. Ask less often.", retry_after_s=math.ceil(wait_s)
                )
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            raise TokenRefused("The request carries no valid token. Send it as `Authorization: Bearer TOKEN`.")

    def _counted(self, error: AuthError | TooManyRequests) -> CellwrightError:
        if isinstance(error, AuthError) and (wait_s := self._refused.take()):
            return TooManyRequests(
                "Many requests without a valid token came, and this is another. Nothing ran. Send the token as "
                "`Authorization: Bearer TOKEN`, or ask less often.",
                retry_after_s=math.ceil(wait_s),
            )
        return error


def is_health(scope: Scope) -> bool:
    """Whether a request is the one that needs no token."""
    return scope["path"] == "/health" and scope.get("method") == "GET"


def refusal(error: CellwrightError) -> JSONResponse:
    """Return an error as a response: its status and its sentence."""
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, TokenRefused) else {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    body = {"error": str(error), "kind": type(error).__name__}
    return JSONResponse(body, status_code=error.http_status, headers=headers)


def own_hosts(host: str, port: int) -> frozenset[str]:
    """Return the values of `Host` that a service on this address answers to; empty when it listens everywhere."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        return frozenset()
    names = {host, "localhost", "127.0.0.1", "[::1]"} if host in {"127.0.0.1", "localhost", "::1"} else {host}
    return frozenset({f"{name}:{port}" for name in names})


def service_token(given: str | None, kept: Path) -> str:
    """Return the token to use: the given one, else the one in the file, which is made if absent.

    Args:
        given: Value of `CELLWRIGHT_TOKEN`.
        kept: File of mode 0600.

    Raises:
        UsageError: The given token is too short, or no header can carry it.
    """
    if given is not None:
        if len(given) < TOKEN_CHARS:
            raise UsageError(f"CELLWRIGHT_TOKEN has fewer than {TOKEN_CHARS} characters. Give a longer one, or none.")
        if not TOKEN.fullmatch(given):
            raise UsageError(
                "CELLWRIGHT_TOKEN has characters that a header does not carry as they are. Nothing was started. Use "
                "letters, digits and -._~+/=, or give none."
            )
        return given
    make_private(kept.parent)
    folder = os.open(kept.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)  # services that start at once agree on one token
        try:
            token = kept.read_text().strip()
        except (FileNotFoundError, UnicodeDecodeError):
            token = ""
        if len(token) < TOKEN_CHARS or not TOKEN.fullmatch(token):
            token = secrets.token_urlsafe(32)
            _put(kept, token)
        return token
    finally:
        os.close(folder)


def _put(kept: Path, token: str) -> None:
    """Write the file, whole for whoever reads it meanwhile."""
    temporary = kept.with_name(f".token.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        temporary.replace(kept)
    finally:
        temporary.unlink(missing_ok=True)
