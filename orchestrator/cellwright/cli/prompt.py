"""`cellwright prompt` shows what a model is told before its first turn.

Flows in: the options of `run`. Flows out: the instructions and the tools, as they would be sent. Decided here: that no value of a
secret is needed for it, and nothing starts; whether somebody can be asked is decided as `run` does.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cellwright.briefing import briefing
from cellwright.cli import options
from cellwright.cli.at_terminal import AtTerminal
from cellwright.cli.option_groups import with_options
from cellwright.cli.people_options import PeopleOptions
from cellwright.cli.term_options import TermOptions
from cellwright.plain import plain
from cellwright.terms import Checks, Sending


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="prompt")(show_prompt)


@with_options(asked=options.SpecOptions, terms=TermOptions, people=PeopleOptions)
def show_prompt(
    lang: options.Languages = options.DEFAULT_LANGUAGES,
    json_: Annotated[bool, typer.Option("--json", help="Print both as they are sent, as JSON.")] = False,
    *,
    asked: options.SpecOptions,
    terms: TermOptions,
    people: PeopleOptions,
) -> None:
    """Show what `run` with the same options would tell the model: its instructions, and the tools it may call."""
    languages = options.languages_from(lang)
    sending, checks = terms.given.applied(Sending(), Checks())
    asks = people.people(AtTerminal.found().terminal).asking is not None
    told = briefing(asked.spec(), languages, sending, checks, people=asks)
    if json_:
        print(json.dumps({"instructions": told.instructions, "tools": told.tools}, indent=2))
        return
    print(plain(told.instructions))
    for tool in told.tools:
        print(f"\n── tool {tool['name']}\n\n{plain(str(tool['description']))}")
