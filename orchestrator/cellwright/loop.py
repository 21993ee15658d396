"""A run by a model: a sandbox of its own, a task, and what came of it.

Flows in: a task, and what is to be had for it. Flows out: an `Outcome`; the run is on disk then. Decided here: what is
closed with the run and what is the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from cellwright.budget import Budget
from cellwright.conversation import Conversation
from cellwright.driving import Run
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL, Model, Usage
from cellwright.model_server import model_at
from cellwright.people import People
from cellwright.prices import read_prices
from cellwright.progress import OnProgress, Progress, RunStarted
from cellwright.prompts.templates import check_prompts
from cellwright.record.records import TermsSet
from cellwright.record.run_info import RunEnd
from cellwright.sandbox.base import Backend, Spec
from cellwright.session import Session
from cellwright.steering import Steering
from cellwright.stuck import Patience
from cellwright.terms import Checks, Sending, Terms, terms_record
from cellwright.validity import check_schema
from cellwright_kernel.wire import Language


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what it took."""

    run_id: str
    run_dir: Path
    status: RunEnd
    reason: str | None
    """Why, as a sentence; absent when it is done."""
    summary: str | None
    """The model's last words; absent when there are none."""
    turns: int
    """Responses of the model, one that only sums up among them."""
    cells: int
    usage: Usage
    cost: float | None = None
    """What its tokens cost, in US dollars, by the table of prices; absent: that is not known, since the model's price is not, or its server
    did not say how many tokens a response had."""
    price: str | None = None
    """Which price that is, in words, and whose; absent when it is not known."""
    result: JsonValue = None
    """What the final answer is, where a schema was given and it satisfies it; else absent."""


async def run(
    task: str,
    *,
    model: str | Model = DEFAULT_MODEL,
    base_url: str | None = None,
    api_key: str | None = None,
    spec: Spec | None = None,
    budget: Budget | None = None,
    patience: Patience | None = None,
    languages: Sequence[Language] = ("python", "javascript"),
    on_progress: OnProgress | None = None,
    backend: Backend | None = None,
    runs: Path | None = None,
    secrets: Mapping[str, str] | None = None,
    sending: Sending | None = None,
    checks: Checks | None = None,
    people: People | None = None,
    steering: Steering | None = None,
) -> Outcome:
    """Have a model do a task in a sandbox of its own, and return how that ended. Its record is on disk then.

    Args:
        task: What is to be done, in the user's words.
        model: Name of a model at a server of the Responses API, or a `Model`.
        base_url: Address of that server; absent: `OPENAI_BASE_URL`, or OpenAI.
        api_key: Absent: `OPENAI_API_KEY`.
        spec: What the sandbox is made from.
        budget: What may be spent; absent: 20 turns.
        patience: How often the same may happen before the model is told, and before the run ends as `stuck`; absent: 3, 5, 8.
        languages: What it may write: `exec_py`, `exec_js` or both are offered.
        on_progress: Gets what happens while it does.
        backend: A backend to use instead of the one that the Spec names.
        runs: Folder of the runs; absent: the user's own.
        secrets: The value of each secret that the Spec names.
        sending: What is sent of what was said and done; absent: as usual.
        checks: What must hold before it is done; absent: what the model says.
        people: Who can be asked; absent: nobody. A value of its own for each run.
        steering: By which a person has a word in it while it runs.

    Raises:
        UsageError: The task is empty, the schema is none, a prompt says what means nothing, a secret has no value, there is neither
            a key nor another server, or the user's table of prices is none.
        SandboxUnavailable: No sandbox could be started.
        asyncio.CancelledError: It was cancelled; the running cell was interrupted and the run closed as `cancelled`.
    """
    if not task.strip():
        raise UsageError("The task is empty. Nothing was started. Say what is to be done.")
    terms = Terms(
        budget=budget or Budget(),
        languages=tuple(languages),
        patience=patience or Patience(),
        prices=await asyncio.to_thread(read_prices),
        sending=sending or Sending(),
        checks=checks or Checks(),
        people=people or People(),
        steering=steering or Steering(),
    )
    check_terms(terms.sending, terms.checks)
    asked = model_at(model, base_url=base_url, api_key=api_key) if isinstance(model, str) else model
    try:
        async with Session.open(
            *(spec,),
            driver="loop",
            task=task,
            model=asked.name,
            backend=backend,
            runs=runs,
            secrets=secrets,
            people=terms.people,
        ) as session:
            return await drive(session, asked, task, terms=terms, on_progress=on_progress)
    finally:
        if asked is not model:
            await asked.close()


async def drive(
    session: Session,
    model: Model,
    task: str,
    *,
    terms: Terms | None = None,
    on_progress: OnProgress | None = None,
    begun: Conversation | None = None,
) -> Outcome:
    """Have a model do a task in an open session; `begun`: how far one has come with it. Else as `run`."""
    tell = on_progress or _unwatched
    tell(RunStarted(session.run_id, session.run_dir, model.name))
    terms = terms or Terms()
    said = terms_record(terms.sending, terms.checks)
    if said.model_copy(update={"at": ""}) != _before(begun).model_copy(update={"at": ""}):
        session.journal.append(said)
    terms.steering.holds(session.interrupt)
    driven = Run(session, model, task, terms=terms, on_progress=tell, begun=begun)
    end = await driven.go()
    return Outcome(
        session.run_id, session.run_dir, end.status, end.reason, end.summary,
        driven.requesting.turns, driven.meter.cells, driven.requesting.usage, driven.meter.cost,
        driven.meter.price.words if driven.meter.price else None, driven.result,
    )  # fmt: skip


def check_terms(sending: Sending, checks: Checks) -> None:
    """Raise UsageError where the terms mean nothing: before anything starts."""
    check_prompts(sending.prompts)
    if checks.result_schema is not None:
        check_schema(checks.result_schema)


def _before(begun: Conversation | None) -> TermsSet:
    usual = terms_record(Sending(), Checks())
    return (begun.terms if begun else None) or usual


def _unwatched(_: Progress) -> None:
    """Nobody looks."""
