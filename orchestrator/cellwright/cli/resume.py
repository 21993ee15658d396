"""`cellwright resume RUN` goes on with a run that has stopped; `cellwright fork RUN --at N` with a copy of its beginning.

Flows in: RUN, what is executed again, what the run does not keep, and who goes on. Flows out: the run as it goes on, and how it
ended. Decided here: that a run which no model drove is brought back, and closed as what it was, unless code is given to go on with.
What needs the openai library is imported where it is used, as in `run.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from cellwright.cli.at_terminal import AtTerminal
from cellwright.cli.budget_options import BudgetOptions
from cellwright.cli.execute import show_cell
from cellwright.cli.given_again import AgainOptions
from cellwright.cli.going_on import GoingOnOptions
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.live import Live
from cellwright.cli.model_options import ModelOptions, Who
from cellwright.cli.option_groups import with_options
from cellwright.cli.people_options import PeopleOptions
from cellwright.cli.run import outcome_as_json
from cellwright.cli.runs import RunArgument
from cellwright.cli.term_options import TermOptions
from cellwright.errors import UsageError
from cellwright.people import People
from cellwright.plain import plain
from cellwright.prices import read_prices
from cellwright.record import Run, find_run, read_run
from cellwright.record.records import CellRebuilt, TermsSet
from cellwright.replay.fork import fork
from cellwright.replay.plan import Plan
from cellwright.replay.replay import Again, spec_again
from cellwright.replay.resume import Given, files_must_fit, must_be_resumable, resume
from cellwright.secret_uses import secrets_of
from cellwright.terms import TermsGiven
from cellwright_kernel.wire import Cell, Language

if TYPE_CHECKING:
    from cellwright.loop import Outcome


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("resume")(resume_run)
    app.command("fork")(fork_run)


@with_options(
    given=AgainOptions,
    going_on=GoingOnOptions,
    who=ModelOptions,
    budget=BudgetOptions,
    terms=TermOptions,
    people=PeopleOptions,
)
def resume_run(
    run: RunArgument,
    *,
    given: AgainOptions,
    going_on: GoingOnOptions,
    who: ModelOptions,
    budget: BudgetOptions,
    terms: TermOptions,
    people: PeopleOptions,
) -> None:
    """Go on with a run that has stopped, by a crash or otherwise, in a new sandbox that is brought to where the old one was.

    Exit status: as `run`; for a run that no model drove, as `exec`, and 0 where nothing is to be executed.
    """
    recorded = read_run(find_run(run))
    must_be_resumable(recorded)
    by_model = recorded.info.driver == "loop"
    person = AtTerminal.found()
    if by_model and going_on.exec_ is not None:
        raise UsageError(
            "--exec goes on where no model does, and a model drove this run. Nothing was started. Leave it out."
        )
    going = _Going(
        given=_given(recorded, given, going_on.out),
        who=who.chosen(recorded.info.model) if by_model else None,
        budget=budget,
        terms=terms.given,
        person=person,
        people=people.people(person.terminal, recorded),
        asked=going_on,
        language=going_on.language,
    )
    _go_on(recorded, going_on.plan(recorded), going)


@with_options(
    given=AgainOptions,
    going_on=GoingOnOptions,
    who=ModelOptions,
    budget=BudgetOptions,
    terms=TermOptions,
    people=PeopleOptions,
)
def fork_run(
    run: RunArgument,
    task: Annotated[
        str | None, typer.Argument(help="The new task. Absent: the run's own goes on.", show_default=False)
    ] = None,
    *,
    at: Annotated[int, typer.Option("--at", metavar="N", min=1, help="The last cell that both runs have.")],
    given: AgainOptions,
    going_on: GoingOnOptions,
    who: ModelOptions,
    budget: BudgetOptions,
    terms: TermOptions,
    people: PeopleOptions,
) -> None:
    """Begin a new run with the first cells of another, brought back in a new sandbox; a model, or one cell, goes on.

    Exit status: as `resume`.
    """
    from cellwright.resuming import words_of_fork  # noqa: PLC0415 - see above

    recorded = read_run(find_run(run))
    by_model = going_on.exec_ is None
    person = AtTerminal.found()
    if by_model and task is None and recorded.info.driver != "loop":
        raise UsageError(
            "No model drove this run, so there is no task to go on with. Nothing was started. Give a TASK, or one cell by --exec."
        )
    if not by_model and task is not None:
        raise UsageError(
            "A TASK is for a model, and --exec goes on without one. Nothing was started. Give one of them."
        )
    kept_outside = _given(recorded, given, going_on.out)
    going = _Going(
        given=kept_outside,
        who=who.chosen(recorded.info.model) if by_model else None,
        budget=budget,
        terms=terms.given,
        person=person,
        people=people.people(person.terminal, recorded),
        asked=going_on,
        language=going_on.language,
        what_happened=words_of_fork(recorded, at, task),
    )
    name = going.who.name if going.who else None
    kept = secrets_of(
        spec_again(recorded, Again(env=kept_outside.env, backend=kept_outside.backend)), kept_outside.secrets
    )
    read_prices()  # or a fork would be made that cannot start
    folder = fork(recorded, at, driver="loop" if by_model else "cli", task=task, model=name, secrets=kept)
    forked = read_run(folder)
    _go_on(forked, going_on.plan(forked), going)


@dataclass(frozen=True, kw_only=True)
class _Going:
    """How a run goes on."""

    given: Given
    who: Who | None
    budget: BudgetOptions
    terms: TermsGiven
    person: AtTerminal
    people: People
    asked: GoingOnOptions
    language: Language
    what_happened: str | None = None


def _go_on(recorded: Run, plan: Plan, going: _Going) -> None:
    console = Console(file=sys.stderr if going.asked.as_json else sys.stdout, quiet=going.asked.as_json)
    console.print(Text(f"{recorded.folder}", style="dim"), soft_wrap=True)
    live, person, people = Live(console), going.person, going.people
    person.sees(live)
    try:
        if going.who is None:
            cell = run_to_its_end(_by_code(recorded, plan, going, console, people))
            status: str = "ok" if cell is None else cell.status
        else:
            _tell_of_verify(recorded, going.terms)
            driving = partial(_by_model, recorded, plan, going, going.who, console)
            outcome = run_to_its_end(driving(live=live, person=person, people=people), person.on_first)
            status = "ok" if outcome.status == "done" else outcome.status
            if going.asked.as_json:
                print(json.dumps(outcome_as_json(outcome), indent=2))
            else:
                live.outcome(outcome)
    except asyncio.CancelledError:
        raise typer.Exit(INTERRUPTED) from None
    if status != "ok":
        raise typer.Exit(1)


def _tell_of_verify(recorded: Run, terms: TermsGiven) -> None:
    """Say that the command which verified the run is not executed: it may be somebody else's."""
    before = next((record for record in reversed(recorded.records) if isinstance(record, TermsSet)), None)
    if before is not None and before.verify is not None and terms.verify is None:
        print(
            f"cellwright: the run was verified by {plain(before.verify)}; it is not this time: --verify COMMAND does.",
            file=sys.stderr,
        )


async def _by_model(
    recorded: Run, plan: Plan, going: _Going, who: Who, console: Console,
    *, live: Live, person: AtTerminal, people: People,
) -> Outcome:  # fmt: skip
    from cellwright.resuming import Driving, resume_by_model  # noqa: PLC0415

    async with who.served() as model, person.watching():
        driving = Driving(
            model=model,
            budget=going.budget.budget,
            patience=going.budget.chosen_patience,
            terms=going.terms,
            on_progress=live,
            people=people,
            steering=person.steering,
        )
        return await resume_by_model(
            recorded.folder,
            plan,
            going.given,
            driving,
            what_happened=going.what_happened,
            on_cell=_telling(console),
        )


async def _by_code(recorded: Run, plan: Plan, going: _Going, console: Console, people: People) -> Cell | None:
    async with resume(
        recorded.folder, plan, going.given, what_happened=going.what_happened, on_cell=_telling(console), people=people
    ) as resumed:
        session = resumed.session
        if going.asked.exec_ is None:
            end = recorded.end
            session.conclude(
                end.status if end else None, reason=end.reason if end else None, summary=end.summary if end else None
            )
            if going.asked.as_json:
                print(json.dumps({"run_id": session.run_id, "run_dir": str(session.run_dir), "words": resumed.words}))
            console.print(Text(plain(resumed.words)), soft_wrap=True)
            console.print(
                Text("Nothing was given to go on with, so it was closed as what it was: --exec CODE goes on.")
            )
            return None
        cell = await session.execute(going.asked.exec_, language=going.language)
        if going.asked.as_json:
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


def _given(recorded: Run, asked: AgainOptions, out: Path | None) -> Given:
    wanted = recorded.info.spec.get("out")
    if wanted is not None and out is None:
        print(
            f"cellwright: the run copied files to {plain(str(wanted))}; they are not copied this time: --out DIR does.",
            file=sys.stderr,
        )
    values = asked.environment(recorded)
    files = asked.files()
    spec_again(recorded, Again(env=values, backend=asked.sandbox))  # or a fork would be made that cannot start
    files_must_fit(recorded, files)
    return Given(
        env=values,
        secrets=asked.secrets(recorded),
        files=files,
        out=None if out is None else out.absolute(),
        backend=asked.sandbox,
    )
