"""`cellwright serve`: the gateway as a process.

Flows in: where to listen, and what its sandboxes may have. Flows out: the guide endpoint and `/v1`, until Ctrl-C. Decided
here: what is printed: the URL, the two lines that the guide's clients want, and `ready` once it is; and that the token
itself stands there only when it was made just now.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated

import typer
import uvicorn

from cellwright.cli import options
from cellwright.cli.people_options import APPROVE_HELP, rule_from
from cellwright.cli.service import announced, token_file
from cellwright.errors import UsageError
from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts, service_token
from cellwright.gateway.connections import BoundedHead
from cellwright.gateway.rates import A_SECOND
from cellwright.people import People
from cellwright.pool import IDLE_S, Pool
from cellwright.sandbox.tunnel import CHUNK_BYTES

CLOSING_S = 5
"""Seconds that open requests have once the service is told to end; their cells are interrupted."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


@options.with_spec_options
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8765,
    max_sessions: Annotated[
        int, typer.Option(min=1, help="Most sessions at once; each takes about 650 MB, without a browser 125.")
    ] = 8,
    idle: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="An idle session is closed after this.")
    ] = IDLE_S,
    max_requests: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most requests open at once; beyond it the answer is 429. Default: 128, and 16 a session."
        ),
    ] = None,
    max_rate: Annotated[
        float,
        typer.Option(
            min=0.1, metavar="N", help="Most requests a second over ten seconds; beyond it the answer is 429."
        ),
    ] = A_SECOND,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask",
            help="Somebody answers what cells ask: by `cellwright people`, or under `/v1/sessions/ID/questions`.",
        ),
    ] = False,
    approve: Annotated[
        str,
        typer.Option(
            "--approve",
            metavar="RULE",
            help=f"{APPROVE_HELP} By `cellwright people`, or under `/v1/sessions/ID/approvals`.",
        ),
    ] = "never",
    *,
    asked: options.SpecOptions,
) -> None:
    """Serve the guide's `POST /execute`, and sessions under `/v1`, until Ctrl-C."""
    spec, secrets, rule = asked.spec(), asked.secret_values(), rule_from(approve)
    people = partial(People.at_a_desk, approve=rule) if ask or rule != "never" else People
    given = os.environ.get("CELLWRIGHT_TOKEN")
    was_kept = token_file().exists()
    token = service_token(given, token_file())
    shown = _how_to_say(token, given=given, was_kept=was_kept)
    listener = _listen(host, port)
    bound = listener.getsockname()[1]
    pool = Pool(spec, capacity=max_sessions, idle_s=idle, secrets=secrets, people=people)
    app = make_app(pool, token=token, hosts=own_hosts(host, bound), a_second=max_rate, at_once=max_requests)
    config = uvicorn.Config(
        app,
        http=BoundedHead,
        loop="asyncio",  # uvloop, which uvicorn would take if it were there, cannot start a process as another user
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=CLOSING_S,
        access_log=False,
        proxy_headers=False,  # who asks is known by the token, not by an address
        ws="websockets-sansio",
        ws_max_size=CHUNK_BYTES,
        ws_per_message_deflate=False,
    )
    url = f"http://{_in_url(host)}:{bound}"
    with ExitStack() as ending:
        ending.callback(pool.begin_to_close)  # before uvicorn gives up the requests that wait for cells
        ending.enter_context(announced(url))
        _Server(config, url, shown, on_end=ending.close).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn, that says when it is ready, and when it begins to end."""

    def __init__(self, config: uvicorn.Config, url: str, shown: str, *, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end
        self._lines = (
            f"Cellwright listens at {url}",
            f"export OPENAI_EXAMPLE_CODE_EXECUTION_URL={url}",
            f"export OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN={shown}",
            "ready",
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            for line in self._lines:
                print(line, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_end()  # not later: when it is over, uvicorn ends this process by the signal that it got
        await super().shutdown(sockets)


def _how_to_say(token: str, *, given: str | None, was_kept: bool) -> str:
    """Return what a shell makes the token of. Only a new one is shown as it is: what is printed may end up in a log."""
    if given is not None:
        return '"$CELLWRIGHT_TOKEN"'
    if was_kept and token_file().read_text().strip() == token:
        return f'"$(cat {shlex.quote(str(token_file()))})"'
    return token


def _listen(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise UsageError(
            f"Nothing can listen on {host}:{port}: {error.strerror}. Usually another service has the port. "
            "Nothing was started. Give another --port, or 0 for a free one."
        ) from error
    # Connections inherit it. asyncio sets it only where the protocol was named, and without it the client's delayed
    # acknowledgement adds 40 ms to each answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _in_url(host: str) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
