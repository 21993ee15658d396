"""`cellwright run` has a model do a task.

Flows in: a task, and who does it. Flows out: the run as it happens and how it ended, or its outcome in JSON. Decided here: the
exit status (0 done, 1 not, 2 used wrongly, 3 this machine is missing something, 130 interrupted). What needs the openai library is imported where it is used: it takes 0.5 s, and
every other command loads this file too.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cellwright.cli import options
from cellwright.cli.at_terminal import AtTerminal
from cellwright.cli.budget_options import BudgetOptions
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.live import Live
from cellwright.cli.model_options import ModelOptions, Who
from cellwright.cli.option_groups import with_options
from cellwright.cli.people_options import PeopleOptions
from cellwright.cli.term_options import TermOptions
from cellwright.people import People
from cellwright.progress import OnProgress
from cellwright.sandbox.base import Spec
from cellwright.terms import Checks, Sending
from cellwright_kernel.wire import Language

if TYPE_CHECKING:
    from cellwright.loop import Outcome


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="run")(run)


@with_options(
    asked=options.SpecOptions, who=ModelOptions, budget=BudgetOptions, terms=TermOptions, people=PeopleOptions
)
def run(
    task: Annotated[str, typer.Argument(help="What is to be done; `-` reads standard input.")],
    lang: options.Languages = options.DEFAULT_LANGUAGES,
    json_: Annotated[bool, typer.Option("--json", help="Print only the outcome, as JSON.")] = False,
    *,
    asked: options.SpecOptions,
    who: ModelOptions,
    budget: BudgetOptions,
    terms: TermOptions,
    people: PeopleOptions,
) -> None:
    """Have a model do a task on a desktop of its own, and show it while it happens."""
    spec, secrets = asked.spec(), asked.secret_values()
    languages, chosen = options.languages_from(lang), who.chosen()
    sending, checks = terms.given.applied(Sending(), Checks())
    live = Live(Console(file=sys.stderr if json_ else sys.stdout, quiet=json_))
    words = sys.stdin.read() if task == "-" else task
    person = AtTerminal.found()
    person.sees(live)
    try:
        outcome = run_to_its_end(
            _run(
                words,
                chosen,
                spec=spec,
                secrets=secrets,
                budget=budget,
                languages=languages,
                sending=sending,
                checks=checks,
                on_progress=live,
                people=people.people(person.terminal),
                person=person,
            ),
            person.on_first,
        )
    except asyncio.CancelledError:
        live.cancelled()
        raise typer.Exit(INTERRUPTED) from None
    if json_:
        print(json.dumps(outcome_as_json(outcome), indent=2))
    else:
        live.outcome(outcome)
    raise typer.Exit(0 if outcome.status == "done" else 1)


async def _run(
    task: str,
    who: Who,
    *,
    spec: Spec,
    secrets: dict[str, str],
    budget: BudgetOptions,
    languages: tuple[Language, ...],
    sending: Sending,
    checks: Checks,
    on_progress: OnProgress,
    people: People,
    person: AtTerminal,
) -> Outcome:
    from cellwright import loop  # noqa: PLC0415 - see above

    async with who.served() as model, person.watching():
        return await loop.run(
            task,
            model=model,
            spec=spec,
            secrets=secrets,
            budget=budget.budget,
            patience=budget.chosen_patience,
            languages=languages,
            sending=sending,
            checks=checks,
            on_progress=on_progress,
            people=people,
            steering=person.steering,
        )


def outcome_as_json(outcome: Outcome) -> dict[str, object]:
    """Return how a run ended, for a program."""
    usage = {**dataclasses.asdict(outcome.usage), "total_tokens": outcome.usage.total_tokens}
    return {**dataclasses.asdict(outcome), "run_dir": str(outcome.run_dir), "usage": usage}
