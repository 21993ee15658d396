"""The gateway as one ASGI application.

Flows in: HTTP. Flows out: the routes' answers; every error of ours as its status and one sentence. Decided here: which
routes there are, and that the guard and the limits of requests and of a body stand before all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match, Route

from cellwright import __version__
from cellwright.errors import BadRequest, CellwrightError
from cellwright.gateway import execute, kernels, people, sessions
from cellwright.gateway.auth import Guard, refusal
from cellwright.gateway.bodies import Bounded
from cellwright.gateway.described import describe
from cellwright.gateway.rates import A_SECOND, Limited, usual_at_once
from cellwright.pool import Pool

_log = logging.getLogger("cellwright.gateway")


def make_app(
    pool: Pool, *, token: str, hosts: Collection[str], a_second: float = A_SECOND, at_once: int | None = None
) -> FastAPI:
    """Return the application; it opens and closes the pool with itself.

    Args:
        pool: Not yet entered.
        token: The service token.
        hosts: Values of `Host` that are ours; empty: any.
        a_second: Most requests a second, over some seconds.
        at_once: Most requests that are open at the same time; None: by how many sessions there may be.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as cells, pool:  # a closing pool interrupts what runs
            app.state.pool, app.state.cells = pool, cells
            yield

    # as they are: an included router is built anew in each application, at its first request, which takes 8 ms
    routes = [*execute.router.routes, *sessions.router.routes, *kernels.router.routes, *people.router.routes]
    app = FastAPI(title="Cellwright", version=__version__, lifespan=lifespan, routes=routes)
    app.add_exception_handler(CellwrightError, _ours)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _not_served)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(Exception, _unforeseen)
    describe(app)
    app.add_middleware(Bounded)
    app.add_middleware(Limited, a_second=a_second, at_once=usual_at_once(pool.capacity) if at_once is None else at_once)
    app.add_middleware(Guard, token=token, hosts=hosts)
    return app


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CellwrightError)  # noqa: S101 - the handler is registered for these only
    return refusal(error)


async def _unreadable(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - the handler is registered for these only
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return refusal(BadRequest(f"The request could not be read: {where}: {first['msg']}."))


async def _not_served(request: Request, error: Exception) -> JSONResponse:
    """Of the framework's own: no such route, no such method, a body that is no JSON."""
    assert isinstance(error, HTTPException)  # noqa: S101 - the handler is registered for these only
    if isinstance(error.__cause__, CellwrightError):
        return refusal(error.__cause__)
    body = {"error": str(error.detail).removesuffix(".") + ".", "kind": "HTTPException"}
    headers = {"Allow": _methods(request)} if error.status_code == 405 else error.headers
    return JSONResponse(body, status_code=error.status_code, headers=headers)


def _methods(request: Request) -> str:
    """Return which methods a path has; the framework names those of the first route that has the path."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    having = [route for route in routes if route.matches(request.scope)[0] != Match.NONE]
    return ", ".join(sorted({method for route in having for method in route.methods or ()}))


async def _left(_: Request, __: Exception) -> Response:
    """Nobody is there to read it: whoever asked has hung up in the middle of the request's body. That is no fault of ours."""
    return Response(status_code=BadRequest.http_status)


async def _unforeseen(_: Request, error: Exception) -> JSONResponse:
    _log.error("An error that nobody foresaw.", exc_info=error)
    return refusal(CellwrightError("Something went wrong inside Cellwright; its log says what. The session goes on."))
