"""`cellwright run` has a model do a task; `cellwright emulate` is a model server that plays a script offline.

Flows in: a task, or a script. Flows out: the run as it happens and how it ended, or its outcome in JSON. Decided here: the
exit status (0 done, 1 not, 2 used wrongly, 3 this machine is missing something, 130 interrupted), and that a script is played over
real HTTP within the same command. What needs the openai library is imported where it is used: it takes 0.5 s, and
every other command loads this file too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cellwright.budget import Budget
from cellwright.cli import options
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.live import Live
from cellwright.counted import counted
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL
from cellwright.model.script import Script
from cellwright.progress import OnProgress
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Language

if TYPE_CHECKING:
    from cellwright.loop import Outcome
    from cellwright.model.emulator import Emulator


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="run")(run)
    app.command(name="emulate")(emulate)


@options.with_spec_options
def run(
    task: Annotated[str, typer.Argument(help="What is to be done; `-` reads standard input.")],
    model: Annotated[
        str | None, typer.Option(help=f"Name of the model. Default: {DEFAULT_MODEL}.", show_default=False)
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server of the Responses API, up to /v1. Default: OpenAI.")
    ] = None,
    emulate: Annotated[
        Path | None, typer.Option(metavar="SCRIPT", help="Play this script instead of asking a model.")
    ] = None,
    max_turns: Annotated[int, typer.Option(min=1, help="Responses of the model; then it sums up.")] = 20,
    max_cells: Annotated[int | None, typer.Option(min=1, help="Cells that it may execute.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=1, help="Seconds that it may take.")] = None,
    lang: options.Languages = options.DEFAULT_LANGUAGES,
    json_: Annotated[bool, typer.Option("--json", help="Print only the outcome, as JSON.")] = False,
    *,
    asked: options.SpecOptions,
) -> None:
    """Have a model do a task on a desktop of its own, and show it while it happens."""
    if emulate is not None and base_url is not None:
        raise UsageError("--emulate plays a script, --base-url names a server. Nothing was started. Give one of them.")
    spec, secrets = asked.spec(), asked.secret_values()
    budget, languages = Budget(max_turns, max_cells, max_seconds), options.languages_from(lang)
    script = Script.read(emulate) if emulate is not None else None
    live = Live(Console(file=sys.stderr if json_ else sys.stdout, quiet=json_))
    words = sys.stdin.read() if task == "-" else task
    name = model or (DEFAULT_MODEL if script is None else "emulator")
    try:
        outcome = run_to_its_end(
            _run(
                *(words, name, base_url, script),
                spec=spec,
                secrets=secrets,
                budget=budget,
                languages=languages,
                on_progress=live,
            )
        )
    except asyncio.CancelledError:
        live.cancelled()
        raise typer.Exit(INTERRUPTED) from None
    if json_:
        print(json.dumps(outcome_as_json(outcome), indent=2))
    else:
        live.outcome(outcome)
    raise typer.Exit(0 if outcome.status == "done" else 1)


def emulate(
    script: Annotated[Path, typer.Argument(help="The script; its format stands in the documentation.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
) -> None:
    """Serve the Responses API offline: whoever asks gets what the script says."""
    from cellwright.model.emulator import Emulator  # noqa: PLC0415 - see above

    try:
        run_to_its_end(_emulate(Emulator(Script.read(script), host=host, port=port)))
    except asyncio.CancelledError:
        return


async def _run(
    task: str,
    model: str,
    base_url: str | None,
    script: Script | None,
    *,
    spec: Spec,
    secrets: dict[str, str],
    budget: Budget,
    languages: tuple[Language, ...],
    on_progress: OnProgress,
) -> Outcome:
    from cellwright import loop  # noqa: PLC0415 - see above
    from cellwright.model.emulator import API_KEY, Emulator  # noqa: PLC0415

    async with Emulator(script) if script is not None else nullcontext() as emulator:
        return await loop.run(
            task,
            model=model,
            base_url=base_url if emulator is None else emulator.base_url,
            api_key=None if emulator is None else API_KEY,
            spec=spec,
            secrets=secrets,
            budget=budget,
            languages=languages,
            on_progress=on_progress,
        )


async def _emulate(emulator: Emulator) -> None:
    from cellwright.model.emulator import API_KEY  # noqa: PLC0415 - see above

    async with emulator:
        print(f"{counted(len(emulator.script.turns), 'turn')} of {emulator.script.name} at {emulator.base_url}")
        print(f"export OPENAI_BASE_URL={emulator.base_url}")
        print(f"export OPENAI_API_KEY={API_KEY}")
        print("ready", flush=True)
        await emulator.serve()


def outcome_as_json(outcome: Outcome) -> dict[str, object]:
    """Return how a run ended, for a program."""
    usage = {**dataclasses.asdict(outcome.usage), "total_tokens": outcome.usage.total_tokens}
    return {**dataclasses.asdict(outcome), "run_dir": str(outcome.run_dir), "usage": usage}
