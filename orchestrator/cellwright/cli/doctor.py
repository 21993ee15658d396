"""`cellwright doctor`: what this machine has, what it is missing, and what holds a sandbox here.

Flows in: nothing. Flows out: a line for each finding, or one JSON object; exit status 3 when something needed is missing.
Decided here: how it reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cellwright.errors import EnvironmentMissing

if TYPE_CHECKING:
    from cellwright.doctor import Finding


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)


def _doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say what this machine is missing, and the command that mends it."""
    from cellwright.doctor import examine, in_force  # noqa: PLC0415 - only what is used is loaded

    needed, facts = examine(), in_force()
    if as_json:
        dumped = {"needed": [_dump(f) for f in needed], "in_force": [_dump(f) for f in facts]}
        print(json.dumps({"ok": all(f.ok for f in needed), **dumped}, indent=2))
    else:
        _print_lines(needed, facts)
    if not all(f.ok for f in needed):
        raise typer.Exit(EnvironmentMissing.exit_status)


def _dump(finding: Finding) -> dict[str, object]:
    return finding.model_dump(exclude_none=True)


def _print_lines(needed: list[Finding], facts: list[Finding]) -> None:
    width = max(len(f.name) for f in (*needed, *facts))
    print("Needed")
    for finding in needed:
        print(f"  {'ok     ' if finding.ok else 'MISSING'}  {finding.name:<{width}}  {finding.detail}")
    print("\nIn force")
    for finding in facts:
        print(f"           {finding.name:<{width}}  {finding.detail}")
    missing = [f for f in needed if not f.ok]
    if not missing:
        print("\nNothing is missing.")
        return
    print(f"\n{len(missing)} missing. To mend it:")
    for remedy in dict.fromkeys(f.remedy for f in missing if f.remedy is not None):
        print(f"  {remedy}")
