"""The front door: a session is the lease of one sandbox under one id, from open to close.

Flows in: a Spec, then code. Flows out: cells, and the run on disk. Decided here: that one cell runs at a time; that whoever
waits for a cell in this process ends it by leaving, unless he was told that it runs; that a sandbox which was lost is
replaced for whoever uses the session next; and how the way in which a session was left is how its run ended.

There is no lock around a session: it belongs to one event loop, and `_ongoing` is read and set without an await between.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

from cellwright.attached import Attached
from cellwright.closing import End, end_run, finish, how_it_ended
from cellwright.counted import counted
from cellwright.deadlines import check_deadline, deadline_of, too_long
from cellwright.egress import AllowList, Tape
from cellwright.errors import SessionBusy, SessionClosed
from cellwright.executor import Executor
from cellwright.files import read_out
from cellwright.lease import Lease, lease, or_closed
from cellwright.leaving import Leaving
from cellwright.ongoing import ModelCall, Ongoing
from cellwright.outgoing import Outgoing
from cellwright.people import People
from cellwright.record import records
from cellwright.record.journal import Journal, open_run
from cellwright.record.run_info import Driver, RunEnd, now
from cellwright.running import OnEvent, check_size
from cellwright.sandbox import backend_named
from cellwright.sandbox.base import Backend, Sandbox, SandboxInfo, Spec
from cellwright.sandbox.door import Door
from cellwright.secret_uses import SecretUses, secrets_of
from cellwright_kernel.wire import Cell, FileInfo, Language, PictureDifference, PicturePair


class Session:
    """One lease of one sandbox. Made by `Session.open`."""

    def __init__(self, session_id: str, journal: Journal, given: Lease, uses: SecretUses, people: People) -> None:
        self.id = session_id
        self.spec = given.spec
        self.journal = journal
        self._lease = given
        self.people = people
        """Who can be asked."""
        self._executor = Executor(given, journal, uses, people, self._touch)
        self._ongoing: Ongoing | None = None
        self._cells = journal.cells
        self._outgoing: Outgoing | None = None
        self._tape: Tape | None = None
        self.attached = Attached(given, journal, self._touch)
        """The way for a Jupyter client to its kernels."""
        self._closed, self._end = False, End("done")
        self.last_used = time.monotonic()
        """Moment of the last request, on the monotonic clock."""

    def __repr__(self) -> str:
        state = "closed" if self._closed else "idle" if self.executing is None else "executing"
        return f"<Session {self.id}: {state}, {counted(self._cells, 'cell')}, {self._lease!r}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        spec: Spec | None = None,
        *,
        session_id: str | None = None,
        driver: Driver = "library",
        task: str | None = None,
        model: str | None = None,
        backend: Backend | None = None,
        runs: Path | None = None,
        secrets: Mapping[str, str] | None = None,
        replay_of: str | None = None,
        tape: Tape | None = None,
        journal: Journal | None = None,
        people: People | None = None,
    ) -> AsyncIterator[Session]:
        """Start a sandbox, open its run on disk, and close both at the end.

        Args:
            spec: What the sandbox is made from; absent: the defaults.
            session_id: Its id; absent: a new one.
            driver: Who sends the cells: `library`, `loop`, `guide`, `gateway`, `cli` or `replay`.
            task: The words the user gave, where there are any.
            model: The model's name, where one drives.
            backend: A backend to use instead of the one that the Spec names.
            runs: Folder of the runs; absent: the user's own.
            secrets: The value of each secret that the Spec names.
            replay_of: Id of the run whose cells are done again; absent: of none.
            tape: Answers in place of the network; absent: what is allowed goes out.
            journal: Of a run that has stopped, opened again: it goes on in a new sandbox. Absent: a new run begins.
            people: Who can be asked; absent: nobody. A value of its own for each session.

        Raises:
            SandboxUnavailable: No sandbox could be started.
            UsageError: A secret has no value, or none that can be kept secret; or an entry of `allow` is none.
        """
        spec, session_id, people = spec or Spec(), session_id or uuid.uuid4().hex, people or People()
        backend = backend or backend_named(spec.backend)
        kept = secrets_of(spec, secrets or {})
        AllowList.of(spec.allow)  # before there is a run
        is_new = journal is None
        journal = journal or open_run(
            runs, session_id=session_id, driver=driver, spec=spec, task=task, model=model, replay_of=replay_of, secrets=kept
        )  # fmt: skip
        end = End.of(journal, is_new=is_new)
        session: Session | None = None
        outgoing = Outgoing(
            journal, lambda: session.executing if session else None, had=None if is_new else journal.cells
        )
        outgoing.keeps_taped = is_new
        leaving = Leaving(people, journal, lambda: session._ongoing if session else None)
        try:
            async with lease(backend, spec, journal, outgoing, secrets=kept, tape=tape, gate=leaving) as given:
                session = cls(session_id, journal, given, SecretUses(kept, journal), people)
                session._executor.leaving = leaving
                session._outgoing, session._tape = outgoing, tape
                journal.append(
                    records.SessionOpened(
                        session_id=session_id,
                        files=await given.start(),
                        sandbox=session.info.model_dump(),
                        ready_ms=given.ready_ms,
                        versions=given.versions,
                    )
                )
                session._end = end = end if end.is_as_before else session._end
                async with session._open():
                    yield session
        finally:
            try:
                outgoing.settle()
            finally:
                await asyncio.to_thread(end_run, journal, end)

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return self.journal.folder

    @property
    def run_id(self) -> str:
        """The run's id, the name of its folder."""
        return self.journal.folder.name

    @property
    def info(self) -> SandboxInfo:
        """What is in force in its sandbox."""
        return self._lease.sandbox.info

    def sandbox(self, begun: Sandbox | None = None) -> Sandbox:
        """Return its sandbox of now. Raises SandboxLost where that is not the one that something was begun in, or has ended."""
        return self._lease.sandbox if begun is None else self._lease.still(begun)

    @property
    def executing(self) -> int | None:
        """Number of the cell that is running; None when idle."""
        return None if self._ongoing is None or self._ongoing.has_ended else self._ongoing.cell.number

    @property
    def cells(self) -> int:
        """Cells that were begun so far."""
        return self._cells

    @property
    def idle_s(self) -> float:
        """Seconds since it was last used; 0 while a cell runs."""
        return 0.0 if self.executing is not None else time.monotonic() - self.last_used

    @property
    def left(self) -> Ongoing | None:
        """The cell executed last, where nobody was told how it ended and nobody waits for it; None: there is none."""
        return self._ongoing if self._ongoing is not None and self._ongoing.is_left else None

    async def execute(
        self,
        code: str,
        *,
        language: Language = "python",
        deadline_s: float | None = None,
        on_event: OnEvent | None = None,
        call: ModelCall | None = None,
        since: float | None = None,
        reply_s: float | None = None,
    ) -> Cell:
        """Execute one cell and return it closed. A failure of the code is a status of the cell, not an exception.

        Args:
            code: At most `CODE_BYTES` of UTF-8.
            language: Which kernel.
            deadline_s: Seconds until it is interrupted; absent: what its first line asks for, or the Spec says.
            on_event: Gets every event as it arrives.
            call: The model's call that asked for it; absent: no loop drives.
            since: Moment on the monotonic clock from which the deadline counts, a sandbox's start included; absent: the
                moment at which the code is posted.
            reply_s: Seconds after which it is returned as it stands, with the status `running`; it goes on, and `wait`
                returns it. Absent: it is waited for to its end.

        Raises:
            SessionBusy: Another cell is running.
            CodeTooLarge: Nothing ran.
            UsageError: The deadline is beyond the session's limit. Nothing ran.
            SandboxUnavailable: The sandbox was lost, and no other could be started.
        """
        ongoing = self.begin(code, language=language, deadline_s=deadline_s, on_event=on_event, call=call, since=since)
        return await self._told(ongoing, reply_s)

    def begin(
        self,
        code: str,
        *,
        language: Language = "python",
        deadline_s: float | None = None,
        on_event: OnEvent | None = None,
        call: ModelCall | None = None,
        since: float | None = None,
    ) -> Ongoing:
        """Begin a cell as `execute` does, and return it at once: nobody's leaving ends it."""
        self._refuse()
        check_size(code)
        deadline_s = deadline_s or deadline_of(code, language, self.spec)
        if too_long(code, language, self.spec) is None:
            check_deadline(deadline_s, self.spec)
        self._cells += 1
        cell = Cell(number=self._cells, language=language, code=code, started_at=now())
        before = () if self._ongoing is None else self._ongoing.untold
        self._ongoing = ongoing = Ongoing(cell, self._lease, self.journal, before)
        ending = self._executor.execute(ongoing, deadline_s, on_event, call=call, since=since)
        ongoing.ends_with(asyncio.ensure_future(ending))
        return ongoing

    async def execute_again(
        self, opened: records.CellOpened, *, within: Sandbox, deadline_s: float, interrupt_after_s: float | None = None
    ) -> Cell:
        """Execute a cell that the run has already, for what it leaves in a new sandbox; nothing is recorded.

        Args:
            opened: The cell.
            within: The sandbox that what was before it was brought back in; no other takes its place: `SandboxLost` is raised.
            deadline_s: As with `execute`.
            interrupt_after_s: Seconds after which it is interrupted, as it was then; absent: it is not.
        """
        self._refuse()
        cell = Cell(number=opened.number, language=opened.language, code=opened.code, started_at=now())
        self._ongoing = ongoing = Ongoing(cell, self._lease, self.journal)
        ongoing.ends_with(ending := asyncio.ensure_future(self._executor.again(ongoing, deadline_s, within=within)))
        if interrupt_after_s is not None:
            await asyncio.wait({ending}, timeout=interrupt_after_s)
            await ongoing.interrupt()
        return await self._told(ongoing, None)

    def go_live(self) -> None:
        """Take the tape away: from now on what is allowed goes out, and is recorded."""
        if self._tape is not None:
            self._tape.lift()

    def go_on(self) -> None:
        """Say that a run which was taken up again is where it was: what comes from now on is new, and is how it ends."""
        self.go_live()
        if self._outgoing is not None:
            self._outgoing.rebuilds = False
        self.conclude("done")

    async def wait(self, *, reply_s: float | None = None) -> Cell | None:
        """Wait for the cell that was executed last; return as `execute` does, None when there was none yet.

        Raises:
            SessionBusy: Somebody waits for it already.
        """
        return None if self._ongoing is None else await self._told(self._ongoing, reply_s)

    def conclude(self, status: RunEnd | None, reason: str | None = None, *, summary: str | None = None) -> None:
        """Say how the run ended; recorded when the session closes. Without it the run is `done`, or, taken up again, as before.

        Args:
            status: How it ended; None, and it is left without an end, as a crash leaves it.
            reason: Why, as a sentence.
            summary: The model's last words.
        """
        self._end.status, self._end.reason, self._end.summary = status, reason, summary
        self._end.is_as_before = False

    def will_close(self, reason: str) -> None:
        """Say why the session is about to be closed, as a sentence, where that says nothing of its run; recorded then."""
        self._end.closed_because = reason

    async def interrupt(self) -> None:
        """Interrupt the running cell; nothing happens when none runs."""
        if self._ongoing is not None and not self._closed:
            with self._or_closed():
                await self._ongoing.interrupt()

    async def restart(self, language: Language = "python", *, again_in: Sandbox | None = None) -> None:
        """Replace a kernel: its variables are gone, files and desktop stay. A cell that runs in it ends as `interrupted`.

        With `again_in` the run has it already, here as below: it is done again in this sandbox and no other, unrecorded.
        """
        async with self._used(again_in, may_replace=self.executing is None) as door:
            await door.restart(language)
            if again_in is None:
                self.journal.append(records.KernelRestarted(language=language))

    async def screenshot(self) -> bytes:
        """Return the desktop as it is now, a PNG."""
        async with self._used() as door:
            taken = await door.screenshot()
        self._executor.screen.seen_by_others()
        return taken[0] if taken else b""

    async def picture_difference(self, pair: PicturePair) -> PictureDifference:
        """Return in what two pictures differ, as the inside says, where alone they are decoded."""
        async with self._used() as door:
            return await door.picture_difference(pair)

    async def list_files(self, path: str = "") -> list[FileInfo]:
        """Return the files below a folder of the sandbox's home."""
        async with self._used() as door:
            return await door.list_files(path)

    async def read_file(self, path: str, *, with_secrets: bool = False) -> bytes:
        """Return a file of the sandbox's home; one that holds the value of a secret only `with_secrets`, else `HoldsSecret` is raised."""
        async with self._used() as door:
            return await read_out(door, path, with_secrets=with_secrets)

    async def write_file(self, path: str, data: bytes, *, again_in: Sandbox | None = None) -> None:
        """Write a file into the sandbox's home."""
        async with self._used(again_in) as door:
            await door.write_file(path, data)
            if again_in is not None:
                return
            sha256 = await asyncio.to_thread(self.journal.blob, data)
            self.journal.append(
                records.FileWritten(path=path, sha256=sha256, size_bytes=len(data), kept=self.journal.keeps(sha256))
            )

    async def delete_file(self, path: str, *, again_in: Sandbox | None = None) -> None:
        """Remove a file from the sandbox's home."""
        async with self._used(again_in) as door:
            await door.delete_file(path)
            if again_in is None:
                self.journal.append(records.FileDeleted(path=path))

    async def _told(self, ongoing: Ongoing, reply_s: float | None) -> Cell:
        """Wait for a cell for a waiter in this process: that it is returned tells him; his leaving ends it, unless he was told."""
        with ongoing.waited_for():
            try:
                ongoing.told(cell := await ongoing.by(reply_s))
            except asyncio.CancelledError:
                if not ongoing.was_answered:
                    await self._executor.end(ongoing)  # its record is written
                    ongoing.is_told = True
                raise
        self._touch()
        return cell

    @asynccontextmanager
    async def _used(self, begun: Sandbox | None = None, *, may_replace: bool = True) -> AsyncIterator[Door]:
        self._touch()
        if self._closed:
            raise SessionClosed
        with self._or_closed():
            yield (await self._lease.living() if may_replace and begun is None else self.sandbox(begun)).door

    def _or_closed(self) -> AbstractContextManager[None]:
        return or_closed(lambda: self._closed)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Hold the session open; how the block ends is how the run ends, unless `conclude` said otherwise."""
        try:
            yield
        except BaseException as error:
            if not self._end.is_as_before:
                self.conclude(*how_it_ended(error))
            raise
        finally:
            self._closed = self._executor.is_over = self.attached.is_over = True
            if self._ongoing is not None:
                await self._executor.end(self._ongoing)
            await self._executor.close()
            await finish(self.id, self._lease, self.journal, self._end)

    def _refuse(self) -> None:
        if self._closed:
            raise SessionClosed
        if self.executing is not None:
            why = "Usually two drivers share one session id." if self.left is None else "Nobody waits for it now."
            advice = "It goes on undisturbed. Wait for it, interrupt it, or use another session."
            raise SessionBusy(f"Cell {self.executing} is still running in this session. {why} {advice}")

    def _touch(self) -> None:
        self.last_used = time.monotonic()
