"""`cellwright probe`: what a model server can do, found out by asking it, and kept for runs that ask it later.

Flows in: an address and a model. Flows out: a line for each thing as it is found out, or one JSON object; the profile
on disk. Decided here: how it reads.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cellwright.cli.tables import new_table, print_table
from cellwright.model.base import DEFAULT_MODEL
from cellwright.model.stored_profiles import store
from cellwright.model_server import OPENAI, address_of, profiles_folder
from cellwright.plain import plain

if TYPE_CHECKING:
    from cellwright.model.probe import Findings


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("probe")(_probe)


def _probe(
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server of the Responses API, up to /v1. Default: OpenAI.")
    ] = None,
    model: Annotated[str, typer.Option(help="Name of a model there.")] = DEFAULT_MODEL,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find out by some thirty small requests what a model server can do, and keep it for later runs. They may cost a little."""
    from cellwright.model.probe import probe  # noqa: PLC0415 - loads openai: 0.5 s

    findings = asyncio.run(probe(model, base_url=base_url))
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    path = store(profiles_folder(), address_of(base_url) or OPENAI, model, findings.profile, probed_at=moment)
    if as_json:
        seen = [dataclasses.asdict(one) for one in findings.seen]
        profile = dataclasses.asdict(findings.profile)
        print(
            json.dumps({"profile": profile, "seen": seen, "requests": findings.requests, "kept": str(path)}, indent=2)
        )
        return
    _print_table(findings)
    print(f"\n{findings.requests} requests. Kept in {path}: runs with this URL and model use it.")


def _print_table(findings: Findings) -> None:
    console = Console(highlight=False)
    table = new_table(console, "part", "verdict", "seen")
    for seen in findings.seen:
        table.add_row(seen.part, plain(seen.verdict), plain(seen.saw))
    print_table(table, console)
