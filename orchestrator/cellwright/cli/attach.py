"""`cellwright attach`: a Jupyter client of the user's own, on a kernel of a session of the running service.

Flows in: a session and a language. Flows out: a connection file, the one command to use it with, and a way to the
kernel, until Ctrl-C. Decided here: what the user is told: what they execute is no cell of the run, and no value
of a secret is hidden in what they see.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Final
from urllib.parse import quote

import typer
from pydantic import ValidationError

from cellwright.cli import options
from cellwright.cli.interrupts import run_to_its_end
from cellwright.cli.local_sockets import local_sockets
from cellwright.cli.service import Address, address, checked, service_client
from cellwright.errors import CellwrightError
from cellwright_kernel.wire import LANGUAGE_NAMES, KernelConnection

_ADVICE: Final = (
    "Until Ctrl-C, the {} kernel of session {} can be attached to, with the command below in another terminal. What you "
    "execute there is no cell of the run and is not recorded, and cells wait while it runs. What you see there comes from the "
    "sandbox as it is."
)
_OF_SECRETS: Final = (
    " This session has secrets: their values are not hidden there, neither from you nor from what you attach. Let no model read "
    "along."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(attach)


def attach(
    session: Annotated[str, typer.Argument(help="Session of a running `cellwright serve`.")],
    lang: Annotated[str, typer.Option(help="`py` or `js`.")] = "py",
) -> None:
    """Let `jupyter console`, or any Jupyter client, attach to a kernel of a session until Ctrl-C."""
    language = options.language_from(lang)
    whole = f"/v1/sessions/{quote(session, safe='')}"
    path = f"{whole}/kernels/{language}"
    service = address(session, "Nothing was attached. Start it, and execute a cell in the session.")
    with service_client(service) as client:
        has_secrets = bool(checked(client.get(whole)).json().get("secrets"))
        connection = _connection(checked(client.get(f"{path}/connection")).content)
    advice = _ADVICE.format(LANGUAGE_NAMES[language], session) + (_OF_SECRETS if has_secrets else "")
    try:
        run_to_its_end(_attach(service, advice, connection, path))
    except asyncio.CancelledError:
        return


async def _attach(service: Address, advice: str, connection: KernelConnection, path: str) -> None:
    url = f"ws{service.url.rstrip('/').removeprefix('http')}{path}"
    async with local_sockets(connection, url, service.token) as (file, ended):
        print(advice, file=sys.stderr, flush=True)
        print(f"jupyter console --existing {file}", flush=True)
        reason = await ended
    raise reason


def _connection(content: bytes) -> KernelConnection:
    try:
        return KernelConnection.model_validate_json(content)
    except ValidationError as error:
        raise CellwrightError(
            "The service did not say how to talk to the kernel. Usually it is of another version. Nothing was attached."
        ) from error
