"""`cellwright emulate` is a model server that plays a script offline.

Flows in: a script. Flows out: the Responses API on a port, until it is stopped. Decided here: what a person needs to point a client
at it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cellwright.cli.interrupts import run_to_its_end
from cellwright.counted import counted
from cellwright.emulator.script import Script

if TYPE_CHECKING:
    from cellwright.emulator.server import Emulator


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="emulate")(emulate)


def emulate(
    script: Annotated[Path, typer.Argument(help="The script; its format stands in the documentation.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
) -> None:
    """Serve the Responses API offline: whoever asks gets what the script says."""
    from cellwright.emulator.server import Emulator  # noqa: PLC0415 - loads openai: 0.5 s

    try:
        run_to_its_end(_emulate(Emulator(Script.read(script), host=host, port=port)))
    except asyncio.CancelledError:
        return


async def _emulate(emulator: Emulator) -> None:
    from cellwright.emulator.server import API_KEY  # noqa: PLC0415 - as above

    async with emulator:
        print(f"{counted(len(emulator.script.turns), 'turn')} of {emulator.script.name} at {emulator.base_url}")
        print(f"export OPENAI_BASE_URL={emulator.base_url}")
        print(f"export OPENAI_API_KEY={API_KEY}")
        print("ready", flush=True)
        await emulator.serve()
