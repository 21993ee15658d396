"""A run that stopped, opened again: its record goes on, and a new sandbox is brought to where the old one was.

Flows in: the folder of a run, a plan, and what the run does not keep. Flows out: an open session that continues the run, and
what was rebuilt. Decided here: what the record gets before anything else, an end for each cell that was lost; that the
sandbox is always a new one, since one dies with the orchestrator that started it; and that the files of the run enter it
again, from the run or as they are given.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from cellwright.conversation import RESUMED
from cellwright.errors import UsageError
from cellwright.people import People
from cellwright.record import Journal, Run, read_run
from cellwright.record.records import CellClosed, CellRebuilt, CopiedFile, Exchanged, Note, SessionOpened
from cellwright.record.stored import StoredText
from cellwright.replay.answers import RecordedPeople, never_approved
from cellwright.replay.files_again import in_place_of, must_fit
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.missed import Missed
from cellwright.replay.network import last_of_cells, tape_of
from cellwright.replay.plan import Plan
from cellwright.replay.rebuild import Rebuilding, Rebuilt
from cellwright.replay.replay import Again, spec_again
from cellwright.sandbox.base import Backend, Spec
from cellwright.secret_uses import secrets_of
from cellwright.session import Session

RESUMABLE: Final = frozenset({"open", "failed", "budget", "stuck", "cancelled"})
"""What a run may have come to that is resumed; one that is done has nothing left to do."""

_LOST: Final = (
    "This cell was running when the program that recorded it was stopped, and its sandbox ended with it. How far it had come "
    "is not known; {shown}."
)
_WAITED: Final = (
    "This cell waited for a person's approval when the program that recorded it was stopped. Nothing of it ran."
)


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a run does not keep, or may have otherwise this time."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Values of the variables that the run names."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The same for its secrets."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files that take the place of those copied in then, by their path in the sandbox's home."""
    out: Path | None = None
    """Where new and changed files are copied to at the end; the run's own folder is not used unasked."""
    backend: str | None = None
    """Name of another backend than the run's."""
    may_differ: MayDiffer = field(default_factory=MayDiffer.read)


@dataclass(frozen=True)
class Resumed:
    """A run that goes on."""

    session: Session
    rebuilt: Rebuilt
    words: str
    """What was brought back and what was not; the run has it, as a note."""


def must_be_resumable(run: Run) -> None:
    """Return when a run can be resumed.

    Raises:
        JournalCorrupt: It is not as it was written.
        UsageError: Somebody is writing it, or it is done.
    """
    run.must_be_whole()
    if run.status == "running":
        raise UsageError(
            f"Run {run.info.run_id} is running: a process writes it, and its sandbox lives. Nothing was started. Where a service "
            f"has it, go on with `cellwright exec --session {run.info.session_id}`; else end that process first."
        )
    if run.status not in RESUMABLE:
        raise UsageError(
            f"Run {run.info.run_id} is {run.status}: there is nothing left to do. Nothing was started. "
            f"`cellwright fork {run.info.run_id} --at {len(run.stored_cells)} TASK` goes on from where it ended, in a new run."
        )


def files_must_fit(run: Run, given: Mapping[str, Path]) -> None:
    """Return when the files that were copied in last, or those that take their place, can be again.

    Raises:
        JournalCorrupt: One of the run's is no file of a home.
        UsageError: A name is none of the run's, or a file is missing.
    """
    opened = [record for record in run.records if isinstance(record, SessionOpened)]
    if opened:  # else the run stopped before it had any
        must_fit(opened[-1].files, given)


@asynccontextmanager
async def resume(
    folder: Path,
    plan: Plan,
    given: Given,
    *,
    what_happened: str | None = None,
    on_cell: Callable[[CellRebuilt], None] = lambda _: None,
    backend: Backend | None = None,
    people: People | None = None,
) -> AsyncIterator[Resumed]:
    """Go on with a run that has stopped: mend its record, start a sandbox, and bring back in it what can be.

    Args:
        folder: Of the run.
        plan: What becomes of its cells, by `plan_for`.
        given: What the run does not keep.
        what_happened: The first sentence of what is said of it; absent: that it had stopped.
        on_cell: Is told of each cell of the plan.
        backend: Instead of the one that the run names.
        people: Who can be asked from then on; absent: nobody.

    Raises:
        JournalCorrupt: The run is not as it was written. Nothing ran.
        UsageError: A value or a file is missing that the run does not have, or it has gone on since the plan was made. Nothing ran.
        RecordError: Another process writes it.
        SandboxUnavailable: No sandbox could be started.
        SandboxLost: It ended while it was brought to where the old one was.

    A run that is not brought to where it was keeps the end that it had.
    """
    run = await asyncio.to_thread(read_run, folder)
    run.must_be_whole()
    spec = spec_again(run, Again(env=given.env, backend=given.backend))
    kept = secrets_of(spec, given.secrets)
    journal = await asyncio.to_thread(lambda: Journal.reopen(folder, secrets=kept))
    try:
        run = await asyncio.to_thread(read_run, folder)  # nobody else writes it from here on
        plan.must_be_of(run)
        with _files_of(run, given) as files:
            spec = spec.model_copy(update={"files": files, "out": given.out})
            what = what_happened or _what_happened(run)
            _close_lost(run, journal)
            missed = Missed()
            people = replace(people or People(), recorded=RecordedPeople(run))
            async with _session(
                run, plan, given, spec=spec, journal=journal, missed=missed, backend=backend, people=people
            ) as session:
                rebuilding = Rebuilding(*(run, plan, session, given.may_differ), missed=missed.taken, on_cell=on_cell)
                rebuilt = await rebuilding.rebuilt()
                words = rebuilt.words(what)
                session.journal.append(Note(topic=RESUMED, text=words))
                session.go_on()
                yield Resumed(session, rebuilt, words)
    finally:
        journal.leave()  # where the session could not even begin to open; else it has been


def _session(
    run: Run,
    plan: Plan,
    given: Given,
    *,
    spec: Spec,
    journal: Journal,
    missed: Missed,
    backend: Backend | None,
    people: People,
) -> AbstractAsyncContextManager[Session]:
    left = {planned.cell.opened.number for planned in plan.cells if planned.how == "left"}
    answers = [one for one in last_of_cells(run) if isinstance(one, Exchanged) and one.cell not in left]
    return Session.open(
        spec,
        driver=run.info.driver,
        task=run.info.task,
        model=run.info.model,
        backend=backend,
        secrets=given.secrets,
        tape=tape_of(run, missed, given.may_differ, answers),
        journal=journal,
        people=people,
    )


def _close_lost(run: Run, journal: Journal) -> None:
    """Give each cell that has no end one, with what is known of it."""
    waited = never_approved(run)
    for cell in run.stored_cells:
        if cell.opened.number in waited:
            notice = StoredText(text=_WAITED, source="notice")
            journal.append(
                CellClosed(
                    number=cell.opened.number,
                    status="interrupted",
                    outputs=(notice,),
                    posted=False,
                    duration_ms=0,
                    claimed=(),
                )
            )
        elif cell.closed is None:
            shown = "what it had shown so far stands above" if cell.so_far else "what it had shown so far was not noted"
            notice = StoredText(text=_LOST.format(shown=shown), source="notice")
            until = datetime.fromisoformat(run.records[-1].at) - datetime.fromisoformat(cell.opened.started_at)
            journal.append(
                CellClosed(
                    number=cell.opened.number,
                    status="sandbox_lost",
                    outputs=(*cell.so_far, notice),
                    duration_ms=max(0, round(until.total_seconds() * 1000)),
                    claimed=("outputs",),
                )
            )


def _what_happened(run: Run) -> str:
    if run.end is None:
        last = run.records[-1].at if run.records else run.info.created_at
        return f"The program that ran this was stopped without warning, at {last} or soon after."
    reason = f" ({run.end.reason.rstrip('.')})" if run.end.reason else ""
    more = " with a new budget: calls are executed again" if run.end.status == "budget" else ""
    return f"This run had ended {run.end.status}{reason}, at {run.end.at}, and is resumed{more}."


@contextmanager
def _files_of(run: Run, given: Given) -> Iterator[tuple[Path, ...]]:
    """Give the files that had been copied in, as files that can be again, also where the sandbox has to be replaced."""
    files_must_fit(run, given.files)
    opened = [record for record in run.records if isinstance(record, SessionOpened)]
    entered = {file.path: file for file in opened[-1].files} if opened else {}
    named = run.info.spec.get("files")
    if not opened and isinstance(named, list) and named and not given.files:
        raise UsageError(
            f"The run stopped before its files were copied in, so it does not have them: {', '.join(map(str, named))[:500]}. "
            "Nothing ran. Give them again, each by --file."
        )
    with tempfile.TemporaryDirectory(prefix="cellwright-resume-") as folder:
        for path, file in entered.items():
            if in_place_of(path, given.files) is None:
                _restore(Path(folder), file, run)
        yield (*sorted(Path(folder).iterdir()), *given.files.values())


def _restore(folder: Path, file: CopiedFile, run: Run) -> None:
    assert file.sha256 is not None  # noqa: S101 - for the type checker; `must_fit` has seen to it
    to = folder.joinpath(*PurePosixPath(file.path).parts)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(run.blobs.read(file.sha256))
