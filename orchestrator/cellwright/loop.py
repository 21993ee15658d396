"""A run by a model: a sandbox of its own, a task, and what came of it.

Flows in: a task, and what is to be had for it. Flows out: an `Outcome`; the run is on disk then. Decided here: what is
closed with the run and what is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellwright.budget import Budget
from cellwright.conversation import (
    Conversation,
)
from cellwright.driving import Run, Terms
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL, Model, Usage
from cellwright.model_server import model_at
from cellwright.progress import (
    OnProgress,
    Progress,
    RunStarted,
)
from cellwright.record.run_info import RunEnd
from cellwright.sandbox.base import Backend, Spec
from cellwright.session import Session
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


async def run(
    task: str,
    *,
    model: str | Model = DEFAULT_MODEL,
    base_url: str | None = None,
    api_key: str | None = None,
    spec: Spec | None = None,
    budget: Budget | None = None,
    languages: Sequence[Language] = ("python", "javascript"),
    on_progress: OnProgress | None = None,
    backend: Backend | None = None,
    runs: Path | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Outcome:
    """Have a model do a task in a sandbox of its own, and return how that ended. Its record is on disk then.

    Args:
        task: What is to be done, in the user's words.
        model: Name of a model at a server of the Responses API, or a `Model`.
        base_url: Address of that server; absent: `OPENAI_BASE_URL`, or OpenAI.
        api_key: Absent: `OPENAI_API_KEY`.
        spec: What the sandbox is made from.
        budget: What may be spent; absent: 20 turns.
        languages: What it may write: `exec_py`, `exec_js` or both are offered.
        on_progress: Gets what happens while it does.
        backend: A backend to use instead of the one that the Spec names.
        runs: Folder of the runs; absent: the user's own.
        secrets: The value of each secret that the Spec names.

    Raises:
        UsageError: The task is empty, a secret has no value, or there is neither a key nor another server.
        SandboxUnavailable: No sandbox could be started.
        asyncio.CancelledError: It was cancelled; the running cell was interrupted and the run closed as `cancelled`.
    """
    if not task.strip():
        raise UsageError("The task is empty. Nothing was started. Say what is to be done.")
    asked = over_http(model, base_url, api_key) if isinstance(model, str) else model
    try:
        async with Session.open(
            spec, driver="loop", task=task, model=asked.name, backend=backend, runs=runs, secrets=secrets
        ) as session:
            terms = Terms(budget=budget or Budget(), languages=tuple(languages))
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
    driven = Run(session, model, task, terms=terms or Terms(), on_progress=tell, begun=begun)
    end = await driven.go()
    return Outcome(
        session.run_id, session.run_dir, end.status, end.reason, end.summary,
        driven.turns, driven.meter.cells, driven.usage,
    )  # fmt: skip


def over_http(name: str, base_url: str | None, api_key: str | None) -> Model:
    """Return a model at a server of the Responses API, with what is known of it; arguments as with `run`."""
    return model_at(name, base_url=base_url, api_key=api_key)


def _unwatched(_: Progress) -> None:
    """Nobody looks."""
