"""A sandbox whose kernel host is a process of this machine, as far as every backend of that kind has it alike.

Flows in: a Spec; the command that starts a kernel host. Flows out: a running sandbox, its kernel host behind a socket that
was made out here; or what is missing, with nothing left. Decided here: that the kernel host inherits its listening socket,
so that nothing inside can take its place; how long an inside may take to come up, and what is said when it does not.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import SandboxInfo, Spec
from cellwright.sandbox.door import Door
from cellwright.sandbox.launch import Launched, launch
from cellwright.sandbox.place import Place, take_place
from cellwright.sandbox.runtime import chromium_path
from cellwright_kernel.wire import Forward, HostSettings

READY_S: Final = 30.0
"""Seconds that the inside has to become usable; 1.5 to 2.5 are usual on two cores."""


class HostedSandbox(ABC):
    """One sandbox; `launched` is its outermost process.

    Args:
        place: Its folder and uid; it is left at the end.
        launched: The process.
        door: Of its kernel host.
    """

    name: str
    """Its backend's."""

    def __init__(self, place: Place, launched: Launched, door: Door) -> None:
        self._place = place
        self._launched = launched
        self._door = door
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ready"
        return f"<Sandbox {self.name}: {state}, pid {self._launched.pid}, uid {self._place.uid}>"

    @property
    @abstractmethod
    def info(self) -> SandboxInfo:
        """See `Sandbox.info`."""

    @property
    def door(self) -> Door:
        """See `Sandbox.door`."""
        return self._door

    async def ended(self) -> str:
        """See `Sandbox.ended`."""
        return await self._launched.ended()

    async def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed:
            return
        self._closed = True
        try:
            try:
                await self._door.close()
            finally:
                await self._end()
        finally:
            self._place.leave()

    async def _end(self) -> None:
        await self._launched.end()


_Hosted = TypeVar("_Hosted", bound=HostedSandbox)

Start = Callable[[Sequence[str], Sequence[int]], Awaitable[Launched]]
"""Starts a command that inherits descriptors."""


@contextmanager
def place_to_start_in() -> Iterator[Place]:
    """Give a place for one sandbox, which is left if the sandbox does not start."""
    place = take_place()
    try:
        yield place
    except BaseException:
        place.leave()
        raise


async def start_hosted(
    place: Place,
    command: Callable[[str], Sequence[str]],
    make: Callable[[Launched, Door], _Hosted],
    *,
    keep: Sequence[int] = (),
    start: Start | None = None,
) -> _Hosted:
    """Start a kernel host and return its sandbox once that is usable; where it does not become so, nothing is left running.

    Args:
        place: Where its socket lies, and which uid it gets.
        command: Returns program and arguments; given the `door` of its settings.
        make: Returns the sandbox.
        keep: Descriptors that it inherits besides the listening socket.
        start: Starts it; absent: as a process of this machine, with the place's uid.

    Raises:
        SandboxUnavailable: It did not become usable.
    """
    async with AsyncExitStack() as undo:
        path = place.folder / "door"
        listener = _listen(path)
        undo.callback(listener.close)
        words, kept = command(f"fd:{listener.fileno()}"), (*keep, listener.fileno())
        if start is None:
            launched = await launch(words, uid=place.uid if place.drops else None, keep=kept)
        else:
            launched = await start(words, kept)
        undo.push_async_callback(launched.end)
        listener.close()  # from here on only the inside answers, and a dead inside refuses at once
        door = await usable_door(path, launched)
        undo.pop_all()
        return make(launched, door)


async def usable_door(path: Path, launched: Launched) -> Door:
    """Return the door at a socket once the inside is usable.

    Raises:
        SandboxUnavailable: It did not become usable; the door is closed, and the process goes on.
    """
    door = Door.at(path)
    try:
        await _wait_ready(door, launched)
    except BaseException:
        await door.close()
        raise
    return door


def host_settings(spec: Spec, *, door: str, forwards: Sequence[Forward], chromium: str | None = None) -> HostSettings:
    """Return what the kernel host is started with, as far as every backend says it alike; absent: this machine's Chromium."""
    return HostSettings(
        door=door,
        width=spec.width,
        height=spec.height,
        viewport_width=spec.width,
        viewport_height=spec.viewport_height,
        browser=spec.browser,
        chromium=chromium or str(chromium_path()),
        forwards=tuple(forwards),
        env=spec.env,
        params=spec.params,
        deterministic=spec.deterministic,
        secrets=tuple(secret.name for secret in spec.secrets),
    )


def _listen(path: Path) -> socket.socket:
    """Return a listening Unix socket that only its owner may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(64)
    return listener


async def _wait_ready(door: Door, launched: Launched) -> None:
    """Wait until the kernel host says that the inside is usable.

    Raises:
        SandboxUnavailable: It ended, failed, or was not usable within `READY_S`.
    """
    asking = asyncio.ensure_future(door.ready(READY_S))
    ending = asyncio.ensure_future(launched.ended())
    try:
        await asyncio.wait({asking, ending}, timeout=READY_S + 5, return_when=asyncio.FIRST_COMPLETED)
        if asking.done() and asking.exception() is None and asking.result().ready:
            return
        if asking.done() and asking.exception() is None:
            what = " ".join(asking.result().missing)
        elif asking.done():  # the door broke; how it ended follows at once, or the kernel host speaks another language
            await asyncio.wait({ending}, timeout=1)
            how = ending.result() if ending.done() else str(asking.exception())
            what = f"The kernel host did not come up: {how}"
        elif ending.done():
            what = f"The sandbox ended while starting: {ending.result()}"
        else:
            what = f"The inside was not usable within {READY_S:.0f} s."
    finally:
        for waiting in (asking, ending):
            waiting.cancel()
        await asyncio.gather(asking, ending, return_exceptions=True)
    raise SandboxUnavailable(
        f"{what} {launched.log_tail()} Usually a package is missing or user namespaces are not allowed here. "
        "Nothing is left running. Run `cellwright doctor`."
    )
