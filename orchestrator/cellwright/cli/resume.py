"""`cellwright resume RUN` goes on with a run that has stopped; `cellwright fork RUN --at N` with a copy of its beginning.

Flows in: RUN, what is executed again, what the run does not keep, and who goes on. Flows out: the run as it goes on, and how it
ended. Decided here: that at a terminal it is asked before a cell that sent something is executed again, and elsewhere none
is; and that a run which no model drove is brought back, and closed as what it was, unless code is given to go on with.
What needs the openai library is imported where it is used, as in `run.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from cellwright.budget import Budget
from cellwright.cli import options
from cellwright.cli.execute import show_cell
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.live import Live
from cellwright.cli.replay import environment_again, secrets_again
from cellwright.cli.run import outcome_as_json
from cellwright.cli.runs import RunArgument
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL
from cellwright.model.script import Script
from cellwright.plain import plain
from cellwright.record import Run, find_run, read_run
from cellwright.record.records import CellRebuilt
from cellwright.replay.fork import fork
from cellwright.replay.plan import Plan, Question, Rerun, plan_for
from cellwright.replay.replay import Again, spec_again
from cellwright.replay.resume import Given, files_must_fit, must_be_resumable, resume
from cellwright.secret_uses import secrets_of
from cellwright_kernel.wire import Cell, Language

if TYPE_CHECKING:
    from cellwright.loop import Outcome

_CODE_LINES = 30
_EMULATED = "emulator"

RerunOption = Annotated[
    Rerun | None,
    typer.Option(
        "--rerun",
        help="Cells that sent something, that were running when it stopped, or that are marked. `safe`: none is executed again. "
        "`ask`: each is shown. `all`: all are, and send again. `recorded`: those of which the record has every answer are, and "
        "nothing is sent. Default: `ask` at a terminal, else `safe`.",
        show_default=False,
    ),
]
Mark = Annotated[
    list[int] | None,
    typer.Option("--mark", metavar="N", min=1, help="Treat cell N as one that sent something; may be repeated."),
]
Model = Annotated[
    str | None, typer.Option(help="Name of the model that goes on. Default: the run's.", show_default=False)
]
BaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="A server of the Responses API, up to /v1. Default: OpenAI.")
]
Emulate = Annotated[
    Path | None,
    typer.Option(metavar="SCRIPT", help="Play this script from where the run is, instead of asking a model."),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="A variable that the run was given: it keeps the names only. NAME alone takes the caller's value.",
    ),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="Let the run's cells use the caller's variable NAME as the secret of this name, as they did.",
    ),
]
File = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", help="Takes the place of the run's file of this name; may be repeated."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="At close, copy new and changed files of the sandbox's home into this folder."
    ),
]
Sandbox = Annotated[str | None, typer.Option("--sandbox", metavar="BACKEND", help="Another backend than the run's.")]
Code = Annotated[
    str | None, typer.Option("--exec", metavar="CODE", help="Go on with this one cell, where no model does.")
]
Lang = Annotated[str, typer.Option(help="Of --exec: `py` or `js`.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Further responses of the model; then it sums up.")]
MaxCells = Annotated[int | None, typer.Option(min=1, help="Further cells that it may execute.")]
MaxSeconds = Annotated[float | None, typer.Option(min=1, help="Seconds that it may take from now on.")]
Json = Annotated[bool, typer.Option("--json", help="Print only the outcome, as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("resume")(resume_run)
    app.command("fork")(fork_run)


def resume_run(
    run: RunArgument,
    *,
    rerun: RerunOption = None,
    mark: Mark = None,
    model: Model = None,
    base_url: BaseUrl = None,
    emulate: Emulate = None,
    exec_: Code = None,
    lang: Lang = "py",
    env: Env = None,
    secret: Secret = None,
    file: File = None,
    out: Out = None,
    sandbox: Sandbox = None,
    max_turns: MaxTurns = 20,
    max_cells: MaxCells = None,
    max_seconds: MaxSeconds = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that has stopped, by a crash or otherwise, in a new sandbox that is brought to where the old one was.

    Exit status: as `run`; for a run that no model drove, as `exec`, and 0 where nothing is to be executed.
    """
    recorded = read_run(find_run(run))
    must_be_resumable(recorded)
    by_model = recorded.info.driver == "loop"
    if by_model and exec_ is not None:
        raise UsageError(
            "--exec goes on where no model does, and a model drove this run. Nothing was started. Leave it out."
        )
    going = _Going(
        given=_given(recorded, env, secret, file, out, sandbox),
        who=_who(recorded, model, base_url, emulate) if by_model else None,
        budget=Budget(max_turns, max_cells, max_seconds),
        code=exec_,
        language=options.language_from(lang),
        as_json=as_json,
    )
    _go_on(recorded, _plan(recorded, rerun, mark), going)


def fork_run(
    run: RunArgument,
    task: Annotated[
        str | None, typer.Argument(help="The new task. Absent: the run's own goes on.", show_default=False)
    ] = None,
    *,
    at: Annotated[int, typer.Option("--at", metavar="N", min=1, help="The last cell that both runs have.")],
    rerun: RerunOption = None,
    mark: Mark = None,
    model: Model = None,
    base_url: BaseUrl = None,
    emulate: Emulate = None,
    exec_: Code = None,
    lang: Lang = "py",
    env: Env = None,
    secret: Secret = None,
    file: File = None,
    out: Out = None,
    sandbox: Sandbox = None,
    max_turns: MaxTurns = 20,
    max_cells: MaxCells = None,
    max_seconds: MaxSeconds = None,
    as_json: Json = False,
) -> None:
    """Begin a new run with the first cells of another, brought back in a new sandbox; a model, or one cell, goes on.

    Exit status: as `resume`.
    """
    from cellwright.resuming import words_of_fork  # noqa: PLC0415 - see above

    recorded = read_run(find_run(run))
    by_model = exec_ is None
    if by_model and task is None and recorded.info.driver != "loop":
        raise UsageError(
            "No model drove this run, so there is no task to go on with. Nothing was started. Give a TASK, or one cell by --exec."
        )
    if not by_model and task is not None:
        raise UsageError(
            "A TASK is for a model, and --exec goes on without one. Nothing was started. Give one of them."
        )
    given = _given(recorded, env, secret, file, out, sandbox)
    going = _Going(
        given=given,
        who=_who(recorded, model, base_url, emulate) if by_model else None,
        budget=Budget(max_turns, max_cells, max_seconds),
        code=exec_,
        language=options.language_from(lang),
        as_json=as_json,
        what_happened=words_of_fork(recorded, at, task),
    )
    name = going.who.name if going.who else None
    kept = secrets_of(spec_again(recorded, Again(env=given.env, backend=given.backend)), given.secrets)
    folder = fork(recorded, at, driver="loop" if by_model else "cli", task=task, model=name, secrets=kept)
    forked = read_run(folder)
    _go_on(forked, _plan(forked, rerun, mark), going)


@dataclass(frozen=True)
class _Who:
    """Which model goes on."""

    name: str
    base_url: str | None
    script: Script | None


@dataclass(frozen=True, kw_only=True)
class _Going:
    """How a run goes on."""

    given: Given
    who: _Who | None
    budget: Budget
    code: str | None
    language: Language
    as_json: bool
    what_happened: str | None = None


def _go_on(recorded: Run, plan: Plan, going: _Going) -> None:
    console = Console(file=sys.stderr if going.as_json else sys.stdout, quiet=going.as_json)
    console.print(Text(f"{recorded.folder}", style="dim"), soft_wrap=True)
    try:
        if going.who is None:
            cell = run_to_its_end(_by_code(recorded, plan, going, console))
            status: str = "ok" if cell is None else cell.status
        else:
            live = Live(console)
            outcome = run_to_its_end(_by_model(recorded, plan, going, going.who, console, live))
            status = "ok" if outcome.status == "done" else outcome.status
            if going.as_json:
                print(json.dumps(outcome_as_json(outcome), indent=2))
            else:
                live.outcome(outcome)
    except asyncio.CancelledError:
        raise typer.Exit(INTERRUPTED) from None
    if status != "ok":
        raise typer.Exit(1)


async def _by_model(
    recorded: Run, plan: Plan, going: _Going, who: _Who, console: Console, live: Live
) -> Outcome:  # fmt: skip
    from cellwright.model.emulator import API_KEY, Emulator  # noqa: PLC0415 - see above
    from cellwright.resuming import Driving, resume_by_model  # noqa: PLC0415

    async with Emulator(who.script) if who.script is not None else nullcontext() as emulator:
        driving = Driving(
            model=who.name,
            base_url=who.base_url if emulator is None else emulator.base_url,
            api_key=None if emulator is None else API_KEY,
            budget=going.budget,
            on_progress=live,
        )
        return await resume_by_model(
            recorded.folder,
            plan,
            going.given,
            driving,
            what_happened=going.what_happened,
            on_cell=_telling(console),
        )


async def _by_code(recorded: Run, plan: Plan, going: _Going, console: Console) -> Cell | None:
    async with resume(
        recorded.folder, plan, going.given, what_happened=going.what_happened, on_cell=_telling(console)
    ) as resumed:
        session = resumed.session
        if going.code is None:
            end = recorded.end
            session.conclude(
                end.status if end else None, reason=end.reason if end else None, summary=end.summary if end else None
            )
            if going.as_json:
                print(json.dumps({"run_id": session.run_id, "run_dir": str(session.run_dir), "words": resumed.words}))
            console.print(Text(plain(resumed.words)), soft_wrap=True)
            console.print(
                Text("Nothing was given to go on with, so it was closed as what it was: --exec CODE goes on.")
            )
            return None
        cell = await session.execute(going.code, language=going.language)
        if going.as_json:
            print(cell.model_dump_json())
        else:
            show_cell(cell, session.run_dir / "blobs")
        return cell


def _telling(console: Console) -> Callable[[CellRebuilt], None]:
    def tell(cell: CellRebuilt) -> None:
        how = "not executed again" if cell.status is None else f"executed again, {cell.status}"
        reason = f". {cell.reason}" if cell.reason else ""
        style = "yellow" if cell.reason else "dim"
        console.print(Text(plain(f"cell {cell.number}: {how}{reason}"), style=style), soft_wrap=True)

    return tell


def _plan(recorded: Run, rerun: Rerun | None, mark: list[int] | None) -> Plan:
    chosen: Rerun = rerun or ("ask" if sys.stdin.isatty() and sys.stderr.isatty() else "safe")
    return plan_for(recorded, chosen, marked=frozenset(mark or ()), ask=_ask)


def _ask(question: Question) -> bool:
    opened = question.cell.opened
    lines = opened.code.rstrip("\n").split("\n")
    shown = [
        *lines[:_CODE_LINES],
        *([f"... {len(lines) - _CODE_LINES} more lines"] if len(lines) > _CODE_LINES else []),
    ]
    print(plain(f"\ncell {opened.number}, {opened.language}: {question.reason}"), file=sys.stderr)
    for line in (*(f"   {line}" for line in shown), *(f"   sent: {sent}" for sent in question.sent)):
        print(plain(line), file=sys.stderr)
    return typer.confirm("Execute it again? What it sends is sent again.", default=False, err=True)


def _given(
    recorded: Run,
    env: list[str] | None,
    secret: list[str] | None,
    file: list[Path] | None,
    out: Path | None,
    sandbox: str | None,
) -> Given:
    wanted = recorded.info.spec.get("out")
    if wanted is not None and out is None:
        print(
            f"cellwright: the run copied files to {plain(str(wanted))}; they are not copied this time: --out DIR does.",
            file=sys.stderr,
        )
    values = environment_again(recorded, env or ())
    files = {path.name: options.existing_file(path) for path in file or ()}
    spec_again(recorded, Again(env=values, backend=sandbox))  # or a fork would be made that cannot start
    files_must_fit(recorded, files)
    return Given(
        env=values,
        secrets=secrets_again(recorded, secret or ()),
        files=files,
        out=None if out is None else out.absolute(),
        backend=sandbox,
    )


def _who(recorded: Run, model: str | None, base_url: str | None, emulate: Path | None) -> _Who:
    if emulate is not None and base_url is not None:
        raise UsageError("--emulate plays a script, --base-url names a server. Nothing was started. Give one of them.")
    was = recorded.info.model
    if emulate is None and model is None and was == _EMULATED:
        raise UsageError(
            "This run was played from a script, so there is no model to go on. Nothing was started. Give --emulate SCRIPT, or --model."
        )
    script = None if emulate is None else Script.read(emulate)
    return _Who(model or (_EMULATED if script is not None else was) or DEFAULT_MODEL, base_url, script)
