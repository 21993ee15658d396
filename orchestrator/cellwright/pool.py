"""Leases of sandboxes to sessions, for a service with many of them.

Flows in: session ids. Flows out: open sessions. Decided here: how many there may be at once, how long an idle one
lives, and which one has to go when every place is taken.

Each session is opened and closed by one task of its own, whose parent is the pool; so a request that goes away takes
no session with it, and a closing pool waits for all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cellwright.counted import counted
from cellwright.errors import AtCapacity, SessionClosed, SessionNotFound
from cellwright.people import People
from cellwright.record.run_info import Driver
from cellwright.sandbox.base import Backend, Spec
from cellwright.secret_uses import secrets_of
from cellwright.session import Session

IDLE_S: Final = 600.0
"""Seconds after which an idle session is closed; guide clients never close theirs."""
YIELD_S: Final = 120.0
"""Seconds of idleness beyond which a session gives its place to a new one."""

_log = logging.getLogger("cellwright.pool")


@dataclass(eq=False)
class _Holding:
    session: asyncio.Future[Session]
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def close(self, reason: str) -> None:
        """Have it closed, and its run say why; nothing when it is closing already."""
        if not self.closing.is_set() and self.session.done() and self.session.exception() is None:
            self.session.result().will_close(reason)
        self.closing.set()

    def idle_s(self) -> float:
        if not self.session.done() or self.session.exception() is not None:
            return 0.0
        return self.session.result().idle_s


class Pool:
    """Sessions by id, at most `capacity` of them. Use as an asynchronous context manager.

    Args:
        spec: What each sandbox is made from, unless the request says otherwise.
        capacity: Most sessions at once.
        idle_s: Seconds until an idle session is closed.
        runs: Folder of the runs; absent: the user's own.
        backend: A backend to use instead of the one that the Spec names.
        secrets: The value of each secret that the Spec names.
        people: Returns who can be asked in a session that is opened; absent: nobody.

    Raises:
        UsageError: A secret has no value, or none that can be kept secret.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        capacity: int = 8,
        idle_s: float = IDLE_S,
        runs: Path | None = None,
        backend: Backend | None = None,
        secrets: Mapping[str, str] | None = None,
        people: Callable[[], People] = People,
    ) -> None:
        self.spec = spec
        self._secrets = dict(secrets or {})
        self._people = people
        secrets_of(spec, self._secrets)  # what is wrong with them is said before anything listens
        self.capacity = capacity
        self._idle_s = idle_s
        self._runs = runs
        self._backend = backend
        self._held: dict[str, _Holding] = {}
        self._tasks = asyncio.TaskGroup()
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._sweeper = self._tasks.create_task(self._sweep())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.begin_to_close()
        await self._tasks.__aexit__(None, None, None)

    def begin_to_close(self) -> None:
        """Begin to close every session: what runs is interrupted, and who waits for it is answered."""
        for holding in self._held.values():
            holding.close("The service was stopped.")

    async def session(self, session_id: str, *, driver: Driver, spec: Spec | None = None) -> Session:
        """Return the session of this id, opened if there is none.

        Raises:
            AtCapacity: Every place is taken, and nobody has been idle for long.
            SandboxUnavailable: No sandbox could be started.
        """
        holding = await self._lasting(session_id)
        if holding is None:
            await self._make_room()
            holding = await self._lasting(session_id) or self._open(session_id, driver, spec or self.spec)
        session = await asyncio.shield(holding.session)
        session.last_used = time.monotonic()  # or the sweep could close it before its first cell
        return session

    def has(self, session_id: str) -> bool:
        """Whether there is a session of this id that is to last; it may still be opening."""
        holding = self._held.get(session_id)
        return holding is not None and not holding.closing.is_set()

    def existing(self, session_id: str) -> Session:
        """Return the open session of this id.

        Raises:
            SessionNotFound: There is none.
        """
        holding = self._held.get(session_id)
        if holding is None or not holding.session.done() or holding.session.exception() is not None:
            raise SessionNotFound(f"There is no open session {session_id!r}. It may have been closed after being idle.")
        return holding.session.result()

    def sessions(self) -> list[Session]:
        """Return the open sessions, oldest first."""
        done = [holding.session for holding in self._held.values() if holding.session.done()]
        return [session.result() for session in done if session.exception() is None]

    async def close(self, session_id: str) -> None:
        """Close one session and wait until it is closed.

        Raises:
            SessionNotFound: There is none.
        """
        holding = self._held.get(session_id)
        if holding is None:
            raise SessionNotFound(f"There is no open session {session_id!r}.")
        holding.closing.set()
        await holding.closed.wait()

    async def _lasting(self, session_id: str) -> _Holding | None:
        """Return who holds this id, if that is to last: one that is closing is waited for, and is none."""
        while (holding := self._held.get(session_id)) is not None and holding.closing.is_set():
            await holding.closed.wait()
        return holding

    def _open(self, session_id: str, driver: Driver, spec: Spec) -> _Holding:
        holding = _Holding(asyncio.get_running_loop().create_future())
        self._held[session_id] = holding
        self._tasks.create_task(self._own(session_id, holding, driver, spec), name=f"session {session_id}")
        return holding

    async def _own(self, session_id: str, holding: _Holding, driver: Driver, spec: Spec) -> None:
        """Open the session, hold it until it is to close, close it; all in one task."""
        try:
            async with Session.open(
                _own_out(spec, session_id),
                session_id=session_id,
                driver=driver,
                backend=self._backend,
                runs=self._runs,
                secrets=self._secrets,
                people=self._people(),
            ) as session:
                holding.session.set_result(session)
                await holding.closing.wait()
        except Exception as error:
            if not holding.session.done():
                holding.session.set_exception(error)
                holding.session.exception()  # somebody may have given up waiting; it is not lost, they would ask again
            else:  # of one session's end; the others have nothing to do with it
                _log.error("Session %s did not close in order.", session_id, exc_info=error)
        finally:
            if not holding.session.done():
                holding.session.set_exception(SessionClosed())
                holding.session.exception()
            if self._held.get(session_id) is holding:
                del self._held[session_id]
            holding.closed.set()

    async def _make_room(self) -> None:
        while len(self._held) >= self.capacity:  # again after each wait: another may have taken the place
            idlest = max(self._held.values(), key=_Holding.idle_s)
            if idlest.idle_s() < YIELD_S:
                raise AtCapacity(
                    f"No place is free: the limit is {counted(self.capacity, 'session')}, and all are in use. Usually that passes within minutes. "
                    "Nothing was started. Try again later, or start the service with a larger --max-sessions."
                )
            idlest.close(f"It had been idle for {idlest.idle_s():.0f} s, and its place was needed.")
            await idlest.closed.wait()

    async def _sweep(self) -> None:
        """Close what has been idle too long; looks again when the next one could be due."""
        while True:
            for holding in list(self._held.values()):
                if holding.idle_s() >= self._idle_s:
                    holding.close(f"It had been idle for {holding.idle_s():.0f} s.")
            longest = max(
                (holding.idle_s() for holding in self._held.values() if not holding.closing.is_set()), default=0
            )
            await asyncio.sleep(max(self._idle_s - longest, 0.05))


def _own_out(spec: Spec, session_id: str) -> Spec:
    """Each session leaves its files in a folder of its own, or same names would overwrite each other."""
    return spec if spec.out is None else spec.model_copy(update={"out": spec.out / session_id})
