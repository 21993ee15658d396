"""A run that stopped goes on, or a fork of one: by a model, with its conversation made whole again.

Flows in: the folder of a run, a plan, what the run does not keep, a model. Flows out: an `Outcome`, as of any run. Decided here:
that a call about which nothing was done is executed after all if everything was brought back, and otherwise, or in a fork,
answered that it was not; and what a model is told of cells that somebody else had sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cellwright.answer import without_middle
from cellwright.budget import Budget
from cellwright.conversation import Conversation, conversation_of
from cellwright.errors import UsageError
from cellwright.loop import Outcome, check_terms, drive
from cellwright.model import asking_tool
from cellwright.model.base import Model
from cellwright.model_server import model_at
from cellwright.people import People
from cellwright.prices import read_prices
from cellwright.progress import OnProgress
from cellwright.record import Run, read_run
from cellwright.record.records import CellRebuilt, TermsSet
from cellwright.replay.plan import Plan
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Backend
from cellwright.steering import Steering
from cellwright.stuck import Patience
from cellwright.terms import Terms, TermsGiven, terms_of
from cellwright_kernel.wire import Language

_SHOWN_CHARS: Final = 20_000
_NAMES: Final[dict[str, Language]] = {"exec_py": "python", "exec_js": "javascript"}


@dataclass(frozen=True, kw_only=True)
class Driving:
    """Which model goes on, and how."""

    model: str | Model
    base_url: str | None = None
    api_key: str | None = None
    budget: Budget | None = None
    """Counted from now on; absent: 20 turns."""
    patience: Patience | None = None
    """Counted from now on; absent: the usual one."""
    terms: TermsGiven = field(default_factory=TermsGiven)
    """What is to be otherwise than it was."""
    on_progress: OnProgress | None = None
    people: People = field(default_factory=People)
    """Who can be asked."""
    steering: Steering = field(default_factory=Steering)


async def resume_by_model(
    folder: Path,
    plan: Plan,
    given: Given,
    driving: Driving,
    *,
    what_happened: str | None = None,
    on_cell: Callable[[CellRebuilt], None] = lambda _: None,
    on_words: Callable[[str], None] = lambda _: None,
    backend: Backend | None = None,
) -> Outcome:
    """Rebuild a run's sandbox and have a model go on with its task.

    Args:
        folder: Of the run; its `task` is the model's.
        plan: What becomes of its cells.
        given: What the run does not keep.
        driving: The model.
        what_happened: As with `resume`.
        on_cell: Is told of each cell that is brought back, or is not.
        on_words: Is told what the model is.
        backend: Instead of the one that the run names.

    Raises:
        UsageError: The run has no task, or what `resume` and `run` raise it for. Nothing ran.
        JournalCorrupt, RecordError, SandboxUnavailable, SandboxLost: As `resume`.
    """
    recorded = await asyncio.to_thread(read_run, folder)
    task = recorded.info.task
    if task is None:
        raise UsageError(f"Run {recorded.info.run_id} has no task that a model could go on with. Nothing was started.")
    check_terms(*driving.terms.applied(*terms_of(_last_terms(recorded))))
    prices = await asyncio.to_thread(read_prices)
    named = driving.model
    asked = model_at(named, base_url=driving.base_url, api_key=driving.api_key) if isinstance(named, str) else named
    try:
        async with resume(
            folder, plan, given, what_happened=what_happened, on_cell=on_cell, backend=backend, people=driving.people
        ) as resumed:
            on_words(resumed.words)
            begun = await asyncio.to_thread(_conversation, folder)
            before = terms_of(begun.terms)
            sending, checks = driving.terms.applied(*before)
            could_ask = asking_tool.NAME in _tools_of(recorded)
            if (sending, replace(checks, verify=None)) != before or could_ask != (driving.people.asking is not None):
                begun = replace(begun, instructions=None)  # what it was told then is no longer so
            return await drive(
                resumed.session,
                asked,
                task,
                terms=Terms(
                    budget=driving.budget or Budget(),
                    languages=languages_of(recorded),
                    patience=driving.patience or Patience(),
                    prices=prices,
                    sending=sending,
                    checks=checks,
                    people=driving.people,
                    steering=driving.steering,
                ),
                on_progress=driving.on_progress,
                begun=replace(begun, may_execute=resumed.rebuilt.is_complete and what_happened is None),
            )
    finally:
        if asked is not named:
            await asked.close()


def languages_of(run: Run) -> tuple[Language, ...]:
    """Return what the model of a run was offered to write; Python and JavaScript where none was."""
    return tuple(_NAMES[name] for name in _tools_of(run) if name in _NAMES) or ("python", "javascript")


def words_of_fork(run: Run, at: int, task: str | None) -> str:
    """Return what a model is told of a fork: where it comes from, which cells a person had sent, and its task.

    Args:
        run: The run that is forked.
        at: Its last cell that is shared.
        task: The new task; absent: the old one goes on.
    """
    lines = [f"Up to here this is run {run.info.run_id} up to its cell {at}, which went on otherwise."]
    if run.info.task is None:
        shared = [cell.opened for cell in run.stored_cells if cell.opened.number <= at]
        code = "\n\n".join(f"# cell {opened.number}, {opened.language}\n{opened.code}" for opened in shared)
        lines.append(f"A person had these cells executed:\n\n{without_middle(code, _SHOWN_CHARS)}\n")
    if task is not None and run.info.task is not None:
        lines.append(f"From now on the task is this: {task}")
    return "\n".join(lines)


def _tools_of(run: Run) -> list[str]:
    """Return the names of the tools that the model of a run was offered last; a request for a summary may have none."""
    for record in reversed(run.records):
        if record.type == "model_request":
            tools = record.parameters.get("tools")
            names = [tool.get("name") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
            if names:
                return [name for name in names if isinstance(name, str)]
    return []


def _last_terms(run: Run) -> TermsSet | None:
    return next((record for record in reversed(run.records) if isinstance(record, TermsSet)), None)


def _conversation(folder: Path) -> Conversation:
    return conversation_of(read_run(folder))
