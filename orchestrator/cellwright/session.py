"""The front door: a session is the lease of one sandbox under one id, from open to close.

Flows in: a Spec, then code. Flows out: cells, and the run on disk. Decided here: that a cell is journaled before it is
posted and again before its answer is given; that a sandbox which was lost is replaced, and the next cell told so; that
the screen is taken after the answer and before the next cell; that one cell runs at a time.

There is no lock around a session: it belongs to one event loop, and `_executing` is read and set without an await
between.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cellwright.egress import EgressProxy, EgressRequest
from cellwright.errors import CellwrightError, CodeTooLarge, SandboxLost, SessionBusy, SessionClosed
from cellwright.files import copy_in, copy_out
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.sandbox import backend_named
from cellwright.sandbox.base import Backend, Sandbox, SandboxInfo, Spec
from cellwright.sandbox.place import sockets_folder
from cellwright_kernel.wire import (
    Cell,
    CellStatus,
    ClosedEvent,
    Event,
    Execute,
    FileInfo,
    Language,
    Output,
    OutputEvent,
    PieceEvent,
    Rung,
    Source,
    Text,
)

CODE_BYTES: Final = 64 * 1024
"""Largest cell, in bytes of UTF-8."""
LADDER_S: Final = 3.0
"""Seconds after the deadline within which the kernel host has answered, whatever the cell does."""
GRACE_S: Final = 1.0
"""Seconds beyond that until its sandbox is replaced."""

OnEvent = Callable[[Event], None]
"""Called with each event of a running cell, in the session's event loop; it must not block."""


class Session:
    """One lease of one sandbox. Made by `Session.open`."""

    def __init__(self, session_id: str, spec: Spec, backend: Backend, journal: Journal, sandbox: Sandbox) -> None:
        self.id = session_id
        self.spec = spec
        self.journal = journal
        self._backend = backend
        self._sandbox = sandbox
        self._ended = asyncio.ensure_future(sandbox.ended())  # cancelled in _let_go
        self._egress_socket: Path | None = None
        self._executing: int | None = None
        self._cells = 0
        self._notices: list[Text] = []
        self._screen: asyncio.Task[None] | None = None  # awaited before the next cell and in _let_go
        self._screen_tag: str | None = None
        self._screen_sha: str | None = None
        self._closed = False
        self.last_used = time.monotonic()
        """Moment of the last request, on the monotonic clock."""

    def __repr__(self) -> str:
        state = "closed" if self._closed else "executing" if self._executing is not None else "idle"
        return f"<Session {self.id}: {state}, {self._cells} cells, {self._sandbox!r}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        spec: Spec | None = None,
        *,
        session_id: str | None = None,
        driver: str = "library",
        task: str | None = None,
        model: str | None = None,
        backend: Backend | None = None,
        runs: Path | None = None,
    ) -> AsyncIterator[Session]:
        """Start a sandbox, open its run on disk, and close both at the end.

        Args:
            spec: What the sandbox is made from; absent: the defaults.
            session_id: Its id; absent: a new one.
            driver: Who sends the cells: `library`, `loop`, `guide`, `gateway` or `cli`.
            task: The words the user gave, where there are any.
            model: The model's name, where one drives.
            backend: A backend to use instead of the one that the Spec names.
            runs: Folder of the runs; absent: the user's own.

        Raises:
            SandboxUnavailable: No sandbox could be started.
        """
        spec = spec or Spec()
        session_id = session_id or uuid.uuid4().hex
        backend = backend or backend_named(spec.backend)
        journal = records.open_run(runs, session_id=session_id, driver=driver, task=task, model=model, spec=spec)
        status = "failed"
        try:
            async with AsyncExitStack() as stack:
                socket = await stack.enter_async_context(_egress(spec, journal))
                session = cls(session_id, spec, backend, journal, await backend.start(spec, egress_socket=socket))
                session._egress_socket = socket
                stack.push_async_callback(session._let_go)
                await copy_in(spec.files, session._sandbox.door)
                journal.append(records.SessionOpened(session_id=session_id, sandbox=session.info.model_dump()))
                try:
                    yield session
                    status = "done"
                except asyncio.CancelledError:
                    status = "cancelled"
                    raise
                finally:
                    await session._finish()
        finally:
            journal.close(status)

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
        return self._sandbox.info

    @property
    def executing(self) -> int | None:
        """Number of the cell that is running; None when idle."""
        return self._executing

    @property
    def idle_s(self) -> float:
        """Seconds since it was last used; 0 while a cell runs."""
        return 0.0 if self._executing is not None else time.monotonic() - self.last_used

    async def execute(
        self,
        code: str,
        *,
        language: Language = "python",
        deadline_s: float | None = None,
        on_event: OnEvent | None = None,
    ) -> Cell:
        """Execute one cell and return it closed. A failure of the code is a status of the cell, not an exception.

        Args:
            code: At most `CODE_BYTES` of UTF-8.
            language: Which kernel.
            deadline_s: Seconds until it is interrupted; absent: what the Spec says.
            on_event: Gets every event as it arrives.

        Raises:
            SessionBusy: Another cell is running.
            CodeTooLarge: Nothing ran.
            SandboxUnavailable: The sandbox was lost, and no other could be started.
        """
        self._refuse()
        if len(code.encode("utf-8", "surrogatepass")) > CODE_BYTES:
            raise CodeTooLarge(
                f"The code has more than {CODE_BYTES} bytes. Usually data was pasted into it. Nothing ran. "
                "Send it in parts, or as a file."
            )
        self._cells += 1
        self._executing = self._cells
        running = asyncio.ensure_future(
            self._execute(self._cells, code, language, deadline_s or self.spec.cell_deadline_s, on_event)
        )
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            with contextlib.suppress(CellwrightError):
                await self.interrupt()
            await running  # ends within the ladder; its record is written
            raise

    async def interrupt(self) -> None:
        """Interrupt the running cell; nothing happens when none runs."""
        if self._executing is not None and not self._closed:
            await self._sandbox.door.interrupt("python")

    async def restart(self, language: Language = "python") -> None:
        """Replace a kernel: its variables are gone, files and desktop stay."""
        self._refuse()
        await self._living_sandbox()
        await self._sandbox.door.restart(language)
        self.journal.append(records.Note(text=f"The {language} kernel was restarted on request."))

    async def screenshot(self) -> bytes:
        """Return the desktop as it is now, a PNG."""
        self._touch()
        taken = await (await self._living_sandbox()).door.screenshot()
        return taken[0] if taken else b""

    async def list_files(self, path: str = "") -> list[FileInfo]:
        """Return the files below a folder of the sandbox's home."""
        self._touch()
        return await (await self._living_sandbox()).door.list_files(path)

    async def read_file(self, path: str) -> bytes:
        """Return a file of the sandbox's home."""
        self._touch()
        return b"".join([chunk async for chunk in (await self._living_sandbox()).door.read_file(path)])

    async def write_file(self, path: str, data: bytes) -> None:
        """Write a file into the sandbox's home."""
        self._touch()
        await (await self._living_sandbox()).door.write_file(path, data)

    async def delete_file(self, path: str) -> None:
        """Remove a file from the sandbox's home."""
        self._touch()
        await (await self._living_sandbox()).door.delete_file(path)

    async def _execute(
        self, number: int, code: str, language: Language, deadline_s: float, on_event: OnEvent | None
    ) -> Cell:
        try:
            await self._take_screen_first()
            cell = Cell(number=number, language=language, code=code, started_at=_now(), screen_before=self._screen_sha)
            self.journal.append(records.CellOpened.of(cell))
            sandbox = await self._living_sandbox()
            started = time.monotonic()
            gathered = _Gathered(self._notices, on_event)
            self._notices = []
            request = Execute(number=number, language=language, code=code, deadline_s=deadline_s)
            try:
                async with asyncio.timeout(deadline_s + LADDER_S + GRACE_S):
                    async for event in sandbox.door.execute(request):
                        gathered.take(event)
            except (SandboxLost, TimeoutError) as error:
                await self._lose(gathered, error)
            cell = gathered.close(cell, duration_ms=round((time.monotonic() - started) * 1000))
            self.journal.cell_closed(cell)
            self._screen = asyncio.ensure_future(self._take_screen(number))
            return cell
        finally:
            self._executing = None
            self._touch()

    async def _lose(self, gathered: _Gathered, error: Exception) -> None:
        """The sandbox is of no use any more: end it, and say what that means."""
        reason = str(error) or "The kernel host did not answer in time."
        await self._end_sandbox()
        gathered.lost(
            f"The sandbox was lost while this cell ran, and ended. {reason} Its variables, files and windows are gone. "
            "The next cell starts in a new, empty sandbox."
        )

    async def _living_sandbox(self) -> Sandbox:
        """Return the sandbox; where it has ended, a new one, and the next cell is told."""
        if self._closed:
            raise SessionClosed
        if not self._ended.done():
            return self._sandbox
        how = "" if self._ended.cancelled() or self._ended.exception() else self._ended.result()
        if not self._ended.cancelled():  # it ended by itself between two cells
            text = (
                f"The sandbox ended between two cells ({how}) and was replaced: variables, files and windows are gone."
            )
            self._notices.append(Text(text=text, source="notice"))
        await self._end_sandbox()
        self._sandbox = await self._backend.start(self.spec, egress_socket=self._egress_socket)
        self._ended = asyncio.ensure_future(self._sandbox.ended())
        self._screen_tag = None
        await copy_in(self.spec.files, self._sandbox.door)
        self.journal.append(records.Note(text="A new sandbox was started in place of the one that was lost."))
        return self._sandbox

    async def _end_sandbox(self) -> None:
        self._ended.cancel()
        await asyncio.gather(self._ended, return_exceptions=True)
        await self._sandbox.close()

    async def _take_screen_first(self) -> None:
        if self._screen is not None:
            await asyncio.gather(self._screen, return_exceptions=True)
            self._screen = None

    async def _take_screen(self, number: int) -> None:
        """Take the screen after a cell, if anything on it changed; a lost sandbox has none."""
        if self._ended.done():
            return
        try:
            taken = await self._sandbox.door.screenshot(self._screen_tag)
        except CellwrightError as error:
            self.journal.append(records.Note(text=f"No screenshot after cell {number}: {error}"))
            return
        if taken is not None:
            png, self._screen_tag = taken
            self._screen_sha = self.journal.blob(png)
        if self._screen_sha is not None:
            self.journal.append(records.Screen(cell=number, sha256=self._screen_sha))

    async def _finish(self) -> None:
        """The last things while the sandbox lives: the screen, and the files that are to be kept."""
        await self._take_screen_first()
        if self.spec.out is not None and not self._ended.done():
            await copy_out(self._sandbox.door, self.spec)

    async def _let_go(self) -> None:
        self._closed = True
        await self._end_sandbox()
        self.journal.append(records.SessionClosed(session_id=self.id))

    def _refuse(self) -> None:
        if self._closed:
            raise SessionClosed
        if self._executing is not None:
            raise SessionBusy(
                f"Cell {self._executing} is still running in this session. Usually two drivers share one session id. "
                "It goes on undisturbed. Wait for it, interrupt it, or use another session."
            )

    def _touch(self) -> None:
        self.last_used = time.monotonic()


class _Gathered:
    """What has come of a running cell so far."""

    def __init__(self, notices: list[Text], on_event: OnEvent | None) -> None:
        self._outputs: list[Output] = list(notices)
        self._pieces: list[PieceEvent] = []
        self._on_event = on_event
        self._status: CellStatus = "running"
        self._rung: Rung | None = None
        self._truncated = False

    def take(self, event: Event) -> None:
        match event:
            case OutputEvent(output=output):
                self._outputs.append(output)
                self._pieces.clear()
            case PieceEvent():
                self._pieces.append(event)
            case ClosedEvent():
                self._status, self._rung, self._truncated = event.status, event.rung, event.truncated
        if self._on_event is not None:
            self._on_event(event)

    def lost(self, sentence: str) -> None:
        """Keep the pieces of outputs that never became whole; partial output survives every rung."""
        for source in dict.fromkeys(piece.source for piece in self._pieces):
            self._outputs.append(Text(text=self._joined(source), source=source))
        self._outputs.append(Text(text=sentence, source="notice"))
        self._status, self._rung = "sandbox_lost", "replace_sandbox"

    def close(self, cell: Cell, *, duration_ms: int) -> Cell:
        return cell.model_copy(
            update={
                "status": self._status,
                "rung": self._rung,
                "truncated": self._truncated,
                "outputs": tuple(self._outputs),
                "duration_ms": duration_ms,
            }
        )

    def _joined(self, source: Source) -> str:
        return "".join(piece.text for piece in self._pieces if piece.source == source)


@asynccontextmanager
async def _egress(spec: Spec, journal: Journal) -> AsyncIterator[Path | None]:
    """Open the session's only way out; without an allow-list there is none."""
    if not spec.allow:
        yield None
        return

    def note(request: EgressRequest) -> None:
        journal.append(records.Egress.of(request))

    folder = sockets_folder() / f"egress-{uuid.uuid4().hex[:16]}"
    folder.mkdir(mode=0o711)
    path = folder / "proxy.sock"
    try:
        async with EgressProxy(spec.allow, path, on_request=note):
            path.chmod(0o666)  # the sandbox's uid is another one; the folder's name is the secret
            yield path
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
