"""`cellwright emulate` is a model server that plays a script, or a run's model side, offline.

Flows in: a script or a run, what is to go wrong, what the server allows. Flows out: the Responses API on a port, until it is stopped.
Decided here: what a person needs to point a client at it.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from cellwright.cli.interrupts import run_to_its_end
from cellwright.cli.show import console_for_output
from cellwright.counted import counted
from cellwright.emulator.faults import FAULTS, Fault, PlannedFault
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script
from cellwright.errors import UsageError
from cellwright.record import find_run, read_run

if TYPE_CHECKING:
    from cellwright.emulator.server import Emulator


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="emulate")(emulate)


def emulate(
    script: Annotated[
        Path | None,
        typer.Argument(
            help="The script; .yaml and .yml are YAML. Its formats stand in docs/emulator.md.", show_default=False
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="Play the model's side of a run instead: its id or its folder.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[@TURN][xTIMES]", help="Let this go wrong before a turn; * is each. May be repeated."
        ),
    ] = None,
    list_faults: Annotated[
        bool, typer.Option("--list-faults", help="List what can go wrong, and start nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
    requests_per_second: Annotated[
        float | None,
        typer.Option(metavar="N", help="Answer 429 to what comes faster, and count it.", show_default=False),
    ] = None,
    context_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Refuse requests of more tokens.", show_default=False)
    ] = None,
    max_images: Annotated[int, typer.Option(metavar="N", help="Refuse requests of more pictures.")] = 1500,
    max_image_bytes: Annotated[
        int | None, typer.Option(metavar="N", help="Refuse pictures of more bytes.", show_default=False)
    ] = None,
    tool_images: Annotated[bool, typer.Option(help="Whether tools may answer with pictures.")] = True,
    custom_tools: Annotated[bool, typer.Option(help="Whether custom tools may be offered.")] = True,
    output_limit: Annotated[bool, typer.Option(help="Whether a request may give max_output_tokens.")] = True,
    chaining: Annotated[bool, typer.Option(help="Whether previous_response_id can be used.")] = True,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
) -> None:
    """Serve the Responses API offline: whoever asks gets what the script says.

    Example: cellwright emulate script.yaml --fault rate_limited@2x3 --port 8400
    """
    if list_faults:
        _list(as_json=as_json)
        return
    played = _played(script, run).with_faults(PlannedFault.parse(words) for words in fault or ())
    rules = ServerRules(
        max_images=max_images,
        max_image_bytes=max_image_bytes,
        images_in_tools=tool_images,
        custom_tools=custom_tools,
        output_limit=output_limit,
        chaining=chaining,
        context_tokens=context_tokens,
        requests_per_second=requests_per_second,
    )
    from cellwright.emulator.server import Emulator  # noqa: PLC0415 - loads openai: 0.5 s

    try:
        run_to_its_end(_emulate(Emulator(played, host=host, port=port, rules=rules, kept=0)))
    except asyncio.CancelledError:
        return


def _played(script: Path | None, run: str | None) -> Script:
    if (script is None) == (run is None):
        raise UsageError(
            "A script is played, or a run with --run RUN: one of them. Nothing was started. Give a script's file, or --run."
        )
    if script is not None:
        return Script.read(script)
    from cellwright.emulator.recorded import script_of  # noqa: PLC0415 - reads records: for --run only

    return script_of(read_run(find_run(str(run))))


async def _emulate(emulator: Emulator) -> None:
    from cellwright.emulator.server import API_KEY  # noqa: PLC0415 - as above

    async with emulator:
        print(f"{counted(len(emulator.script.turns), 'turn')} of {emulator.script.name} at {emulator.base_url}")
        print(f"export OPENAI_BASE_URL={emulator.base_url}")
        print(f"export OPENAI_API_KEY={API_KEY}")
        print("ready", flush=True)
        try:
            await emulator.serve()
        finally:
            if emulator.rate.violations:
                print(f"{counted(emulator.rate.violations, 'request')} came too early and got status 429.")


def _list(*, as_json: bool) -> None:
    if as_json:
        listed = [
            {"name": fault.name, "sentence": fault.sentence, "applies": fault.applies, "times": fault.times}
            for fault in FAULTS
        ]
        print(json.dumps(listed, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "what happens", "to", "times"):
        table.add_column(heading)
    for fault in FAULTS:
        table.add_row(
            fault.name, fault.sentence, applies_to(fault), "always" if fault.times is None else str(fault.times)
        )
    console_for_output().print(table)


def applies_to(fault: Fault) -> str:
    """Return to which responses a fault can happen, in words."""
    return {"both": "any", "streamed": "streamed", "whole": "not streamed"}[fault.applies]
