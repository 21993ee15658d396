"""The right to one sandbox, and its way out.

Flows in: a Spec and a backend. Flows out: a sandbox that lives. Decided here: that one which ended is replaced by a new,
empty one with the caller's files in it, and that whoever uses it next is told; that two who find it ended get the same
new one, and none after the end of the lease; and that without an allow-list there is no way out at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cellwright.browser_https import BrowserHttps
from cellwright.egress import EgressProxy, Tape
from cellwright.egress.leaving import EffectGate
from cellwright.errors import RecordError, SandboxLost, SessionClosed
from cellwright.files import copy_in
from cellwright.outgoing import Outgoing
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.sandbox.base import Backend, Sandbox, Spec
from cellwright.sandbox.cleaner import folder_removal
from cellwright.sandbox.place import sockets_folder
from cellwright.secrets import NONE, Secrets
from cellwright_kernel.wire import Text


class Lease:
    """One sandbox, replaced when it is lost. Made by `lease`."""

    def __init__(
        self,
        backend: Backend,
        spec: Spec,
        journal: Journal,
        egress_socket: Path | None,
        secrets: Secrets = NONE,
        *,
        https: BrowserHttps | None = None,
    ) -> None:
        self._backend = backend
        self.spec = spec
        """What its sandboxes are made from."""
        self._journal = journal
        self._egress_socket = egress_socket
        self._secrets = secrets
        self._https = https
        self._sandbox: Sandbox | None = None
        self._ended: asyncio.Future[str] | None = None  # cancelled and awaited in end()
        self._notices: list[Text] = []
        self._changing = asyncio.Lock()  # a start takes seconds, and several may wait for it
        self._losing: asyncio.Task[None] | None = None  # awaited before the next start, and in close()
        self._is_over = False
        self.ready_ms = 0
        """From the request for the sandbox of now until it was usable."""
        self.versions: dict[str, str] = {}
        """What it runs on, as the inside says."""
        self.entered: tuple[records.CopiedFile, ...] = ()
        """The caller's files that were copied into the sandbox of now."""

    def __repr__(self) -> str:
        return repr(self._sandbox)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, whether it lives or not."""
        if self._sandbox is None:
            raise AssertionError("A lease is given out only with a sandbox.")
        return self._sandbox

    @property
    def lives(self) -> bool:
        """False once the sandbox has ended, by itself or because it was lost."""
        return self._losing is None and self._ended is not None and not self._ended.done()

    async def start(self) -> tuple[records.CopiedFile, ...]:
        """Start a sandbox and copy the caller's files into it; return them.

        Raises:
            SandboxUnavailable: No sandbox could be started.
        """
        began = time.monotonic()
        self._sandbox, self._ended = await self._backend.start(self.spec, egress_socket=self._egress_socket), None
        self._sandbox.door.secrets = self._secrets
        if self._https is not None:
            await self._https.begin(self._sandbox.door)
        self.ready_ms = round((time.monotonic() - began) * 1000)
        with contextlib.suppress(SandboxLost):  # whoever uses it next finds that it has ended
            self.versions = (await self._sandbox.door.ready(0)).versions
        self.entered = await copy_in(self.spec.files, self._sandbox.door, self._journal)
        self._ended = asyncio.ensure_future(self._sandbox.ended())
        return self.entered

    async def living(self) -> Sandbox:
        """Return the sandbox; where it has ended, a new one.

        Raises:
            SandboxUnavailable: No other could be started.
            SessionClosed: The lease is over.
        """
        async with self._changing:
            if self._is_over:
                raise SessionClosed
            return self.sandbox if self.lives else await self._replaced()

    def still(self, begun: Sandbox) -> Sandbox:
        """Return the sandbox that something was begun in, while it lives; it is never replaced here.

        Raises:
            SandboxLost: It has ended, or another has taken its place.
        """
        if self.sandbox is not begun or not self.lives:
            raise SandboxLost("The sandbox that this was begun in has ended.")
        return begun

    def lose(self) -> None:
        """Give the sandbox up: it is ended in the background, which may take seconds; the lease can still give a new one."""
        if self._losing is None:
            self._losing = asyncio.ensure_future(self._end())

    async def tell_rest(self) -> None:
        """Record what its browser has loaded so far, and no more."""
        if self._https is not None:
            await self._https.end()

    def take_notices(self) -> list[Text]:
        """Return what the next cell is to be told, once."""
        taken, self._notices = self._notices, []
        return taken

    async def close(self) -> None:
        """End the sandbox, and one that is being started; the lease gives no more."""
        self._is_over = True
        async with self._changing:
            await self._end_whole()

    async def _replaced(self) -> Sandbox:
        if self._ended is not None and not self._ended.cancelled():  # it ended by itself, when nobody looked
            how = "how is not known" if self._ended.exception() else self._ended.result().rstrip(".")
            how = self._secrets.hide(how)
            self._notices.append(
                Text(
                    text=f"The sandbox ended between two cells ({how}) and was replaced by a new, empty one: "
                    "variables, files and windows are gone.",
                    source="notice",
                )
            )
        await self._end_whole()
        self._ended = None  # or it would be told of again, if no other can be started now
        await self.start()
        text = "A new sandbox was started in place of the one that was lost."
        self._journal.append(records.Note(topic="sandbox", text=text))
        return self.sandbox

    async def _end_whole(self) -> None:
        losing, self._losing = self._losing, None
        await (losing or self._end())

    async def _end(self) -> None:
        if self._ended is not None:
            self._ended.cancel()
            await asyncio.gather(self._ended, return_exceptions=True)
        if self._https is not None:
            await self._https.stop()
        if self._sandbox is not None:
            await self._sandbox.close()


@contextmanager
def or_closed(is_closed: Callable[[], bool]) -> Iterator[None]:
    """Raise `SessionClosed` in place of what breaks because the sandbox ends, or the journal, with the session.

    Args:
        is_closed: Whether the session is.
    """
    try:
        yield
    except (SandboxLost, RecordError) as error:
        if not is_closed():
            raise
        raise SessionClosed("The session was closed before this was done.") from error


@asynccontextmanager
async def lease(
    backend: Backend,
    spec: Spec,
    journal: Journal,
    outgoing: Outgoing,
    *,
    secrets: Secrets = NONE,
    tape: Tape | None = None,
    gate: EffectGate | None = None,
) -> AsyncIterator[Lease]:
    """Give out a lease, not started yet; its sandbox and its way out end with it.

    Args:
        backend: Makes the sandbox.
        spec: What it is made from.
        journal: Notes replacements, and keeps the files that enter.
        outgoing: Is told of what goes out.
        secrets: What the way out may put into requests, and what nothing from inside may hold.
        tape: Answers in place of the network; absent: what is allowed goes out.
        gate: Decides whether what may change something goes out; absent: it does.
    """
    async with _egress(spec, outgoing, secrets, tape, gate) as socket:
        has_https = socket is not None and spec.browser
        https = BrowserHttps(spec.allow, journal, outgoing, tape) if has_https else None
        given = Lease(backend, spec, journal, socket, secrets, https=https)
        try:
            yield given
        finally:
            await given.close()


@asynccontextmanager
async def _egress(
    spec: Spec, outgoing: Outgoing, secrets: Secrets, tape: Tape | None, gate: EffectGate | None
) -> AsyncIterator[Path | None]:
    if not spec.allow:
        yield None
        return
    folder = sockets_folder() / f"egress-{uuid.uuid4().hex[:16]}"
    folder.mkdir(mode=0o711)
    removal = folder_removal(folder)
    path = folder / "proxy.sock"
    try:
        async with EgressProxy(
            *(spec.allow, path, outgoing.began),
            hears=outgoing,
            hears_tape=outgoing.of_tape(),
            secrets=secrets,
            tape=tape,
            gate=gate,
        ):
            path.chmod(0o666)  # the sandbox's uid is another one; the folder's name is the secret
            yield path
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()
        removal.call_off()
