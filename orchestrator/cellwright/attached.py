"""The way to a session's kernels for a Jupyter client, besides the driver that sends its cells.

Flows in: tunnels that open and close. Flows out: their bytes; and a note in the journal when the first one opens and when
the last one closes. Decided here: how many there may be; that the run says when somebody could have changed variables
unrecorded; and that only what is sent to be executed keeps a session from being idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from cellwright.errors import AtCapacity, KernelEnded, SessionClosed
from cellwright.lease import Lease, or_closed
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.sandbox.tunnel import Tunnel
from cellwright_kernel.wire import LANGUAGE_NAMES, Channel, KernelConnection, Language

MOST_TUNNELS: Final = 64
"""Tunnels of one session at once; a console opens five, or six while it starts."""


class Attached:
    """Who is attached to the kernels of one session, and how.

    Args:
        given: The lease of its sandbox.
        journal: Where it is noted.
        touch: Called when the session is used.
    """

    def __init__(self, given: Lease, journal: Journal, touch: Callable[[], None]) -> None:
        self._lease = given
        self._journal = journal
        self._touch = touch
        self._tunnels: Counter[Language] = Counter()
        self.is_over = False
        """True once the session has closed: nothing is given or noted any more."""

    async def connection(self, language: Language) -> KernelConnection:
        """Return what a Jupyter client must know to talk to a kernel, which is started if there is none.

        Raises:
            SessionClosed: The session has ended.
            SandboxLost: The kernel host did not say.
        """
        if self.is_over:
            raise SessionClosed
        self._touch()
        with or_closed(lambda: self.is_over):
            sandbox = await self._lease.living()
            return await sandbox.door.connection(language)

    @asynccontextmanager
    async def tunnel(self, language: Language, channel: Channel, kernel_id: str) -> AsyncIterator[Tunnel]:
        """Open a way to one socket of a kernel. What is executed over it is no cell of the run; the journal says so.

        Args:
            language: Which kernel.
            channel: Which of its sockets.
            kernel_id: As `connection` gave it: another kernel process is never reached by mistake.

        Raises:
            KernelEnded: That kernel is not there any more.
            AtCapacity: Too many are open.
            SandboxLost: The kernel host did not open it.
        """
        if self.is_over or not self._lease.lives:  # a new sandbox would have other kernels
            raise KernelEnded
        if self._tunnels.total() >= MOST_TUNNELS:
            raise AtCapacity(
                f"{MOST_TUNNELS} connections lead to the kernels of this session. Usually clients were attached and not "
                "ended. They go on. End some of them."
            )
        used = self._touch if channel == "shell" else _nothing  # a heartbeat would keep an idle session for ever
        with or_closed(lambda: self.is_over):
            async with self._lease.sandbox.door.tunnel(language, channel, kernel_id, used) as tunnel:
                with self._counted(language):
                    yield tunnel

    @contextmanager
    def _counted(self, language: Language) -> Iterator[None]:
        self._tunnels[language] += 1
        if self._tunnels[language] == 1:
            self._note(
                "attached",
                f"Somebody attached a Jupyter client to the {LANGUAGE_NAMES[language]} kernel. What is executed there is "
                "no cell of this run and is not recorded.",
            )
        try:
            yield
        finally:
            self._tunnels[language] -= 1
            if not self._tunnels[language]:
                self._note(
                    "detached", f"No Jupyter client is attached to the {LANGUAGE_NAMES[language]} kernel any more."
                )

    def _note(self, topic: str, text: str) -> None:
        if not self.is_over:
            self._journal.append(records.Note(topic=topic, text=text))


def _nothing() -> None:
    """What is done when a heartbeat is sent."""
