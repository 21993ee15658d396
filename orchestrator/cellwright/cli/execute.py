"""`cellwright exec`: one cell, in a session of its own or in one of a running service.

Flows in: code from the command line, a file or standard input. Flows out: what the cell gave, as text, or as the Cell in
JSON. Decided here: pictures go to the run's folder, and the exit status is 0 only for a cell that ended `ok`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from cellwright.cli import options
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.option_groups import with_options
from cellwright.cli.people_options import PeopleOptions
from cellwright.cli.service import address, checked, service_client
from cellwright.cli.terminal import Terminal, is_there
from cellwright.errors import CodeTooLarge, UsageError
from cellwright.plain import plain
from cellwright.session import Session
from cellwright_kernel.wire import CODE_BYTES, Cell, Language, Text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="exec")(execute)


@with_options(asked=options.SpecOptions, people=PeopleOptions)
def execute(
    code: Annotated[str | None, typer.Argument(help="The code; `-` reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--code-file", help="Read the code from this file.")] = None,
    session: Annotated[str | None, typer.Option(help="Session of a running `cellwright serve`.")] = None,
    lang: Annotated[str, typer.Option(help="`py` or `js`.")] = "py",
    json: Annotated[bool, typer.Option("--json", help="Print the Cell as JSON.")] = False,
    *,
    asked: options.SpecOptions,
    people: PeopleOptions,
) -> None:
    """Execute one cell and print what it gave.

    Exit status: 0 when the cell ended ok; 1 when it ended otherwise, by an error of the code, say; 2 used wrongly; 3 this
    machine is missing something; 130 Ctrl-C.
    """
    text, language = _code(code, file), options.language_from(lang)
    if session is not None:
        if asked.shapes_sandbox:
            raise UsageError("What a sandbox may have is said to `cellwright serve`; --session uses what it made.")
        if people != PeopleOptions():
            raise UsageError(
                "Who answers and approves is said to `cellwright serve`; `cellwright people` does it there."
            )
        asked.spec()  # refuses a deadline that is none
        cell, blobs = _in_service(session, text, language, asked.deadline), None
    else:
        try:
            cell, blobs = run_to_its_end(_in_own_session(asked, text, language, people))
        except asyncio.CancelledError:
            raise typer.Exit(INTERRUPTED) from None
    if json:
        print(cell.model_dump_json())
    else:
        show_cell(cell, blobs)
    if cell.status != "ok":
        raise typer.Exit(1)


def _code(code: str | None, file: Path | None) -> str:
    if (code is None) == (file is None):
        raise UsageError("Give the code once: as an argument, as `-` for standard input, or with -f FILE.")
    if code not in {None, "-"}:
        return str(code)
    try:
        with sys.stdin.buffer if file is None else file.open("rb") as source:
            text = source.read(CODE_BYTES + 1)
        if len(text) > CODE_BYTES:
            raise CodeTooLarge(f"{file or 'The code'} has more than {CODE_BYTES} bytes. Nothing ran. Send it in parts.")
        return text.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file or 'The code'} could not be read: {error}. Nothing ran.") from error


def _in_service(session: str, code: str, language: Language, deadline_s: float | None) -> Cell:
    body: dict[str, object] = {"code": code, "language": language}
    if deadline_s is not None:
        body["deadline_s"] = deadline_s  # else the service's own holds
    otherwise = "Nothing ran. Start it, or leave --session out to open a session for this one cell."
    with service_client(address(session, otherwise)) as client:
        checked(client.post("/v1/sessions", json={"session_id": session}))
        try:
            response = checked(client.post(f"/v1/sessions/{session}/cells", json=body))
        except KeyboardInterrupt:
            client.post(f"/v1/sessions/{session}/interrupt")
            raise
    return Cell.model_validate_json(response.content)


async def _in_own_session(
    asked: options.SpecOptions, code: str, language: Language, people: PeopleOptions
) -> tuple[Cell, Path]:
    asks = people.people(Terminal() if is_there() else None)
    async with Session.open(asked.spec(), driver="cli", secrets=asked.secret_values(), people=asks) as session:
        return await session.execute(code, language=language), session.run_dir / "blobs"


def show_cell(cell: Cell, blobs: Path | None) -> None:
    """Print what a cell gave: what it printed on standard output, the rest on standard error."""
    for output in cell.outputs:
        match output:
            case Text(source="stderr" | "notice"):
                print(plain(output.text).removesuffix("\n"), file=sys.stderr)
            case Text():
                print(plain(output.text).removesuffix("\n"))
            case _:
                where = f" {blobs / output.sha256}" if blobs is not None else ""
                print(f"[{output.media_type} {output.width}x{output.height}{where}]")
