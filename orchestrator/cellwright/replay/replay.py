"""A run's cells, done again in a fresh sandbox without the model, each compared with the record.

Flows in: a run, and what may be different this time. Flows out: a comparison for each cell, as soon as there is one, and a new
run, of the replay itself. Decided here: what of a run is done again: its cells, the files that were written into it and
deleted, and restarts of kernels, in the order of the record; how long a screen has to come to show what it showed then: as
long as the record waited before its next cell, and 3 s at most; and that a cell which was interrupted is interrupted after
the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cellwright.conversation import is_lost
from cellwright.errors import CellwrightError, FileMissing, UsageError
from cellwright.record import Blobs, Run, StoredCell, read_run
from cellwright.record.records import CellOpened, FileDeleted, FileWritten, KernelRestarted, Record, SessionOpened
from cellwright.replay.answers import RecordedPeople
from cellwright.replay.compare import (
    Compared,
    Side,
    compare,
    compare_lost,
    shows,
    with_network,
    with_texts,
    without_pictures,
)
from cellwright.replay.files_again import in_place_of, must_fit
from cellwright.replay.following import Following
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.missed import Missed
from cellwright.replay.network import masks_of, tape_of
from cellwright.replay.set_values import SetValues, first_cell_that_may_change, set_values, values_of
from cellwright.sandbox.base import Backend, Spec
from cellwright.screen import LOOKED_AGAIN_S
from cellwright.session import Session
from cellwright_kernel.wire import Area, PicturePair

SCREEN_S: Final = 3.0
"""Most seconds that a screen has, after a cell, to show what it showed in the record."""
_NAMED: Final = 50
"""Most that is named of where one cell left the record, and most again of what does not count; code decides how often it asks."""
_SCREEN_AT_LEAST_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.05
_MAY_BE_ITS: Final = "It does not count: a parameter has another value, and a picture does not say what comes of that."
_OF_THIS_MACHINE: Final = frozenset({"image", "runtime"})
"""Fields of a Spec that name something of the machine that the run was made on."""


@dataclass(frozen=True, kw_only=True)
class Again:
    """What is different this time, and how it is compared."""

    may_differ: MayDiffer = field(default_factory=MayDiffer.read)
    masks: tuple[Area, ...] = ()
    """Of the screen; not looked at."""
    keep_going: bool = False
    """Whether cells after the first that differs are done, too."""
    first: int = 1
    """Number of the first cell that is compared; those before are done for what they leave behind."""
    speed: float | None = None
    """Pauses between cells are those of the record, so many times as fast; absent: there are none."""
    last: int | None = None
    """Number of the last cell that is done; absent: all are."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Values of the variables that the run names, of which it has the names only."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The same for its secrets."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files or folders that take the place of those copied in then, by their path in the sandbox's home."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the run that have another value this time, by name."""
    backend: str | None = None
    """Name of another backend than the run's."""
    is_live: bool = False
    """Whether requests go out to the world, and change it, instead of being answered from the record."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay."""

    folder: Path
    """Of the replay's own run."""
    cells: tuple[Compared, ...]
    """Those that were compared, in order."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters that were set for it, by name."""

    @property
    def divergence(self) -> Compared | None:
        """The first cell that is not the same; None when all are."""
        return next((cell for cell in self.cells if cell.verdict != "same"), None)

    @property
    def words_of_params(self) -> str:
        """What was set, to stand behind a verdict; empty where nothing was."""
        said = ", ".join(f"{name} set to {value!r}" for name, value in self.params.items())
        return f", with {said}" if said else ""


async def replay(
    run: Run,
    again: Again,
    *,
    on_cell: Callable[[Compared], None] = lambda _: None,
    backend: Backend | None = None,
    runs: Path | None = None,
) -> Replayed:
    """Do a run's cells again, and compare them.

    Args:
        run: The record.
        again: What is different this time.
        on_cell: Is given each comparison, as soon as there is one; that of a cell of which something came late in the record at
            the end, when all has come; and again one that is another by then, since something came late here.
        backend: Instead of the one that the run names.
        runs: Folder of the runs; absent: the user's own.

    Raises:
        JournalCorrupt: The run is not as it was written. Nothing ran.
        UsageError: A value or a file is missing that the run does not have, a file or a parameter is given that it has no place
            for, or it has no cells. Nothing ran.
        SandboxUnavailable: No sandbox could be started.
    """
    run.must_be_whole()
    if not run.stored_cells:
        raise UsageError(f"Run {run.info.run_id} has no cells. There is nothing to do again.")
    last = again.last or run.stored_cells[-1].opened.number
    if not again.first <= last <= len(run.stored_cells):
        raise UsageError(
            f"Run {run.info.run_id} has cells 1 to {len(run.stored_cells)}; none of them is to be compared from {again.first} to {last}. "
            "Nothing ran."
        )
    spec = spec_again(run, again)
    values = set_values(run, again.params)
    again = replace(again, may_differ=again.may_differ.with_values(values))
    opened = next((record for record in run.records if isinstance(record, SessionOpened)), None)
    await asyncio.to_thread(must_fit, opened.files if opened else (), again.files)
    left = _LeftRecord()
    async with Session.open(
        spec,
        driver="replay",
        task=run.info.task,
        replay_of=run.info.run_id,
        tape=None if again.is_live else tape_of(run, left, again.may_differ),
        backend=backend,
        runs=runs,
        secrets=again.secrets,
        people=RecordedPeople(run).people,
    ) as session:
        replaying = _Replaying(run, again, session, left, values)
        cells = [compared async for compared in _told(replaying, on_cell)]
    whole = _with_late(cells, run, session.run_dir, again.may_differ, stopped=replaying.stopped)
    for first, compared in zip(cells, whole, strict=True):
        if replaying.may_become_same(first.number) or compared != first:
            on_cell(compared)
    return Replayed(session.run_dir, whole, again.params)


def spec_again(run: Run, again: Again) -> Spec:
    """Return the Spec of the run's sandbox, with what it does not keep.

    The run may have come from somebody else: which program of this machine starts the sandbox, from which image, and whether it
    isolates at all, is nothing that a run decides.

    Raises:
        UsageError: A value that it does not keep is missing, or it was made without isolation and nobody says so again.
    """
    said = {name: value for name, value in run.info.spec.items() if name not in _OF_THIS_MACHINE}
    if said.get("backend") == "none" and again.backend is None:
        raise UsageError(
            "The run was made without isolation, and its code would have this machine's files and network again. Nothing was "
            "started. Say so with --sandbox none, or name a backend that isolates."
        )
    names = said.get("env") or []
    missing = [name for name in names if name not in again.env] if isinstance(names, list) else []
    if missing:
        raise UsageError(
            f"The run was given the environment {', '.join(map(str, missing))}, and keeps the names only. Nothing ran. "
            f"Give the values again: {' '.join(f'--env {name}=VALUE' for name in missing)}. "
            f"`--env {missing[0]}` alone takes that of your environment."
        )
    said |= {"env": dict(again.env), "files": [], "out": None, "params": {**values_of(run), **again.params}}
    if again.backend is not None:
        said["backend"] = again.backend
    try:
        return Spec.model_validate(said)
    except ValidationError as error:
        if again.params and error.errors()[0]["loc"][0] == "params":
            raise UsageError(f"--set: {error.errors()[0]['msg']}. Nothing ran. Give another value.") from error
        raise UsageError(
            f"Run {run.info.run_id} was made from a Spec that this version does not know: {error.errors()[0]['msg']}. "
            "Nothing ran. Usually a newer version wrote it."
        ) from error


class _LeftRecord:
    """Where a cell left the recorded network: sentences, and whether each matters."""

    def __init__(self) -> None:
        self._told = {True: Missed(_NAMED), False: Missed(_NAMED)}

    def __call__(self, sentence: str, *, matters: bool) -> None:
        self._told[matters](sentence, matters=matters)

    def taken(self) -> tuple[tuple[str, bool], ...]:
        """Return what came since this was asked last."""
        return tuple((sentence, matters) for matters, told in self._told.items() for sentence in told.taken())


class _Replaying:
    """The cells of one run in one session."""

    def __init__(self, run: Run, again: Again, session: Session, left: _LeftRecord, values: SetValues) -> None:
        self._run = run
        self._left = left
        self._again = again
        self._session = session
        self._may_look_otherwise = first_cell_that_may_change(run) if values else None
        self._has_entered = False
        self._following = Following(session.run_dir)
        self._recorded = {cell.opened.number: cell for cell in run.stored_cells}
        self.stopped: int | None = None
        """Number of the cell at which it stopped, since it is not the same."""

    async def cells(self) -> AsyncIterator[Compared]:
        """Do everything in the order of the record, and yield what came of the cells that are compared."""
        for record in self._run.records:
            match record:
                case SessionOpened() if not self._has_entered:  # later ones are of a run that was resumed
                    self._has_entered = True
                    await self._enter(record)
                case CellOpened(number=number):
                    if self._again.last is not None and number > self._again.last:
                        return
                    await self._pause(number)
                    compared = await self._cell(self._recorded[number])
                    if number >= self._again.first:
                        yield compared
                        if compared.verdict != "same" and not (self._again.keep_going or self.may_become_same(number)):
                            self.stopped = number
                            return
                case _:
                    await self._between(record)

    def may_become_same(self, number: int) -> bool:
        """Return whether something of a cell came late, and so may here."""
        return bool(self._recorded[number].late)

    async def _pause(self, number: int) -> None:
        before = self._recorded.get(number - 1)
        if self._again.speed is not None and before is not None:
            await asyncio.sleep(self._paused_s(before) / self._again.speed)

    async def _enter(self, record: SessionOpened) -> None:
        """Write the files that were copied in, or those that take their place."""
        for file in record.files:
            other = in_place_of(file.path, self._again.files)
            if other is not None:
                data = await asyncio.to_thread(other.read_bytes)
            else:
                assert file.sha256 is not None  # noqa: S101 - for the type checker; `must_fit` has seen to it
                data = await asyncio.to_thread(self._run.blobs.read, file.sha256)
            await self._session.write_file(file.path, data)

    async def _between(self, record: Record) -> None:
        match record:
            case KernelRestarted(language=language):
                await self._session.restart(language)
            case FileWritten(path=path, sha256=sha256, kept=True):
                await self._session.write_file(path, await asyncio.to_thread(self._run.blobs.read, sha256))
            case FileDeleted(path=path):
                with suppress(FileMissing):  # of a cell that made none this time, which is told of already
                    await self._session.delete_file(path)
            case _:
                return

    async def _cell(self, recorded: StoredCell) -> Compared:
        """Do one cell again, wait for its screen, and compare both."""
        opened = recorded.opened
        side = Side(self._run.blobs, recorded)
        try:
            await self._execute(recorded)
            screen = await self._screen(side)
            cell = await asyncio.to_thread(self._following.cell)
            assert cell is not None  # noqa: S101 - for the type checker; it was executed
            missed = self._left.taken()
            other = Side(Blobs(self._session.run_dir / "blobs"), replace(cell, screen_after=screen))
            had_rested = self._paused_s(recorded) >= LOOKED_AGAIN_S
            if is_lost(recorded):
                compared = compare_lost(side, other)
            else:
                compared = await compare(side, other, self._again.may_differ, self._differ, had_rested=had_rested)
                if self._may_look_otherwise is not None and opened.number >= self._may_look_otherwise:
                    compared = without_pictures(compared, _MAY_BE_ITS)
        except CellwrightError as error:
            return Compared(opened.number, "failed", (str(error),), recorded_ms=side.duration_ms)
        return with_network(compared, missed)

    async def _execute(self, recorded: StoredCell) -> None:
        opened, closed = recorded.opened, recorded.closed
        executing = asyncio.ensure_future(
            self._session.execute(opened.code, language=opened.language, deadline_s=opened.deadline_s)
        )
        if closed is not None and closed.status == "interrupted":
            await asyncio.wait({executing}, timeout=closed.duration_ms / 1000)
            await self._session.interrupt()
        await executing

    async def _screen(self, side: Side) -> str | None:
        """Return the screen as soon as it shows what it showed in the record, else as it is at the end of the wait."""
        if side.cell.screen_after is None:
            return None
        until = time.monotonic() + self._patience_s(side.cell)
        while True:
            png = await self._session.screenshot()
            if await shows(side, png, self._differ) or time.monotonic() > until:
                return await asyncio.to_thread(self._session.journal.screenshot, png, after_cell=self._session.cells)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _differ(self, one: bytes, other: bytes) -> tuple[Area, ...] | None:
        own = () if self._again.is_live else masks_of(self._run, one, other)
        pair = PicturePair(one=one, other=other, masks=(*self._again.masks, *own))
        return (await self._session.picture_difference(pair)).areas

    def _patience_s(self, cell: StoredCell) -> float:
        if cell.opened.number + 1 not in self._recorded:
            return SCREEN_S
        return min(SCREEN_S, max(_SCREEN_AT_LEAST_S, self._paused_s(cell)))

    def _paused_s(self, cell: StoredCell) -> float:
        """Return how long the record waited after a cell before the next one or its end; 0 where it did not."""
        if cell.closed is None:
            return 0.0
        after = self._recorded.get(cell.opened.number + 1)
        until = after.opened.started_at if after is not None else self._run.records[-1].at
        paused = datetime.fromisoformat(until) - datetime.fromisoformat(cell.closed.at)
        return max(0.0, paused.total_seconds())


async def _told(replaying: _Replaying, on_cell: Callable[[Compared], None]) -> AsyncIterator[Compared]:
    async for cell in replaying.cells():
        if not replaying.may_become_same(cell.number):
            on_cell(cell)
        yield cell


def _with_late(
    cells: list[Compared], run: Run, folder: Path, may_differ: MayDiffer, *, stopped: int | None
) -> tuple[Compared, ...]:
    """Compare once more what was said by cells of which something came late, then or now: by now all has come.

    One at which the replay stopped stays as it is: those after it were not done, so that it cannot be the same now.
    """
    done = read_run(folder)
    recorded = {cell.opened.number: Side(run.blobs, cell) for cell in run.stored_cells}
    again = {cell.opened.number: Side(done.blobs, cell) for cell in done.stored_cells}
    return tuple(
        _once_more(cell, recorded[cell.number], again[cell.number], may_differ)
        if cell.verdict != "failed"
        and cell.number != stopped
        and not is_lost(recorded[cell.number].cell)
        and (recorded[cell.number].cell.late or again[cell.number].cell.late)
        else cell
        for cell in cells
    )


def _once_more(cell: Compared, recorded: Side, again: Side, may_differ: MayDiffer) -> Compared:
    try:
        return with_texts(cell, recorded, again, may_differ)
    except CellwrightError as error:
        return replace(cell, verdict="failed", reasons=(str(error),))
