"""What native programs say of their windows over AT-SPI -> elements.

Flows in: the bus that the kernel host offers (`AT_SPI_BUS_ADDRESS`). Flows out: for each program its windows as
elements, and sentences about programs that did not answer. Decided here: what is asked of an element (five small calls,
many at once); how long a program has for an answer, and for all of them; how many elements are read at most. A program
that hangs costs its own elements and one second, no more.

Plain D-Bus by dbus-fast: of the libraries for it the one with an asyncio side that is kept up (Home Assistant stands on
it); it has wheels and works without. libatspi's own binding would need PyGObject and a GLib loop in the kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.errors import DBusError

from cellwright_kernel.boxes import Box, overlap
from cellwright_kernel.processes import is_stopped
from cellwright_kernel.ui.elements import Element, clean
from cellwright_kernel.ui.roles import HOLDERS, aria_role, is_showing, states_of
from cellwright_kernel.ui.windows import program_of

_REGISTRY: Final = ("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root")
_BUS: Final = ("org.freedesktop.DBus", "/org/freedesktop/DBus")
_ANSWER_S: Final = 1.0
_PROGRAM_S: Final = 4.0
_CONNECT_S: Final = 5.0
_AT_ONCE: Final = 24
_DEPTH: Final = 60
_MOST: Final = 3_000
_CHILDREN: Final = 500
_FIELDS: Final = frozenset({"textbox", "combobox", "spinbutton"})
_VALUE_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of an element, a program or the bus."""

    interface: str
    member: str
    signature: str = ""
    body: tuple[object, ...] = ()


_CHILDREN_OF: Final = _Asked("org.a11y.atspi.Accessible", "GetChildren")
_STATE_OF: Final = _Asked("org.a11y.atspi.Accessible", "GetState")
_ROLE_OF: Final = _Asked("org.a11y.atspi.Accessible", "GetRoleName")
_NAME_OF: Final = _Asked("org.freedesktop.DBus.Properties", "Get", "ss", ("org.a11y.atspi.Accessible", "Name"))
_BOX_OF: Final = _Asked("org.a11y.atspi.Component", "GetExtents", "u", (0,))
"""0: in coordinates of the screen, not of the window."""
_TEXT_OF: Final = _Asked("org.a11y.atspi.Text", "GetText", "ii", (0, _VALUE_CHARS))


class NoAnswer(Exception):
    """A program did not answer in time."""


@dataclass(frozen=True, slots=True)
class ProgramWindow:
    """A window of a program, as the program tells it."""

    pid: int
    element: Element


@dataclass(frozen=True, slots=True)
class Said:
    """What the programs said."""

    windows: tuple[ProgramWindow, ...] = ()
    problems: tuple[str, ...] = ()
    silent: tuple[int, ...] = ()
    """Processes that did not answer."""


class Programs:
    """Asks native programs; all calls belong to one event loop.

    Args:
        address: The bus's; absent where there is none.
    """

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._bus: MessageBus | None = None
        self._heard: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()

    async def ask(self) -> Said:
        """Return what all programs show now; never raises for what they do."""
        if not self._address:
            return Said(problems=("Native programs are not read: there is no accessibility bus in this sandbox.",))
        try:
            async with asyncio.timeout(_CONNECT_S):
                bus = await self._connected()
            programs = _references(await _call(bus, _REGISTRY, _CHILDREN_OF, _CONNECT_S))
        except (OSError, EOFError, NoAnswer, DBusError, TypeError, ValueError) as error:
            why = clean(error) or "it did not answer"
            problem = f"Native programs are not read: the accessibility bus gave no answer ({why})."
            return Said(problems=(problem,))
        left = _Left(_MOST)
        said = await _all([self._program(bus, name, path, left) for name, path in programs])
        if any(one.silent for one in said):
            self._forget()  # an answer that never comes would be waited for as long as the connection lasts
        problems = [problem for one in said for problem in one.problems]
        if left.count < 0:
            problems.append(f"Only the first {_MOST:,} elements of native programs were read.")
        if left.is_cut:
            problems.append(f"Of a native program's element that holds more than {_CHILDREN}, only so many were read.")
        return Said(
            tuple(window for one in said for window in one.windows),
            tuple(problems),
            tuple(pid for one in said for pid in one.silent),
        )

    async def _connected(self) -> MessageBus:
        async with self._connecting:
            if self._bus is None or not self._bus.connected:
                self._bus = await MessageBus(bus_address=self._address).connect()
                self._heard = asyncio.ensure_future(_until_gone(self._bus))
            return self._bus

    def _forget(self) -> None:
        if self._bus is not None:
            self._bus.disconnect()
            self._bus = None

    async def _program(self, bus: MessageBus, name: str, path: str, left: _Left) -> Said:
        pid = 0
        try:
            pid = int(await _call(bus, _BUS, _Asked(_BUS[0], "GetConnectionUnixProcessID", "s", (name,))))
            if is_stopped(pid):
                raise NoAnswer  # noqa: TRY301 - one that is stopped need not be waited for
            async with asyncio.timeout(_PROGRAM_S):
                windows = await _Reader(bus, name, left).windows(path)
        except (NoAnswer, TimeoutError):
            if not pid:
                return Said()
            why = "it is stopped" if is_stopped(pid) else "it is busy, or hangs"
            sentence = f"{program_of(pid) or 'A program'} (pid {pid}) does not answer: {why}."
            return Said(problems=(sentence,), silent=(pid,))
        except (DBusError, ValueError, TypeError, EOFError, OSError):  # it, or the bus, has just ended
            return Said()
        return Said(tuple(ProgramWindow(pid, window) for window in windows))


@dataclass(slots=True)
class _Left:
    """How many elements may still be read."""

    count: int
    is_cut: bool = False
    """Whether some element holds more than are read of one."""


class _Reader:
    """Reads one program."""

    def __init__(self, bus: MessageBus, name: str, left: _Left) -> None:
        self._bus = bus
        self._name = name
        self._left = left
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def windows(self, root: str) -> list[Element]:
        """Return the program's windows that are shown."""
        found = await self._call(root, _CHILDREN_OF)
        read = await _all([self._element(name, path, None, 0) for name, path in _references(found)])
        return [element for elements in read for element in elements]

    async def _element(self, name: str, path: str, sight: Box | None, depth: int) -> list[Element]:
        """Return an element with what is in it, or that alone where it says nothing itself; nothing if it is not shown."""
        self._left.count -= 1
        if self._left.count < 0 or depth > _DEPTH or name != self._name:
            return []
        try:
            asked = (
                self._call(path, _STATE_OF),
                self._call(path, _ROLE_OF),
                self._call(path, _NAME_OF),
                self._call(path, _CHILDREN_OF),
                self._box(path),
            )
            state, role, title, children, box = await _all(asked)
            words, called = [int(word) for word in state[:2]], title.value
        except (DBusError, TypeError, ValueError, AttributeError):  # it has just gone, or speaks something else
            return []
        if not is_showing(words):
            return []
        self._left.is_cut |= len(children) > _CHILDREN
        kind, said = aria_role(clean(role)), clean(called)
        seen = box if sight is None else overlap(box, sight)
        within = [self._element(*one, seen if depth == 0 else sight, depth + 1) for one in _references(children)]
        inner = [element for elements in await _all(within) for element in elements]
        value = await self._value(path) if kind in _FIELDS or (kind == "text" and not said) else ""
        if kind in HOLDERS and not said and depth > 0:
            return inner
        states = states_of(words, kind)
        if box is not None and seen is None:
            states = (*states, "offscreen")
        return [Element(kind, said, box, states, value, "", tuple(inner), seen)]

    async def _box(self, path: str) -> Box | None:
        try:
            left, top, width, height = await self._call(path, _BOX_OF)
        except (DBusError, TypeError, ValueError):  # it has no place: an application, a table's row
            return None
        return (int(left), int(top), int(width), int(height)) if width > 0 and height > 0 else None

    async def _value(self, path: str) -> str:
        try:
            return clean(await self._call(path, _TEXT_OF))
        except (DBusError, TypeError):
            return ""

    async def _call(self, path: str, asked: _Asked) -> Any:
        async with self._turn:
            return await _call(self._bus, (self._name, path), asked)


async def _until_gone(bus: MessageBus) -> None:
    """Hear of the connection's end, so that asyncio does not complain in a cell that nobody did."""
    with contextlib.suppress(Exception):
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]


async def _all(works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Return what came of each; the first failure ends the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            begun = [group.create_task(work) for work in works]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [one.result() for one in begun]


def _references(found: Any) -> list[tuple[str, str]]:
    return [(str(name), str(path)) for name, path in list(found)[:_CHILDREN]]


async def _call(bus: MessageBus, where: tuple[str, str], asked: _Asked, within_s: float = _ANSWER_S) -> Any:
    """Ask, and return the one value of the answer.

    Raises:
        NoAnswer: none came in time.
        DBusError: the answer is a refusal.
    """
    name, path = where
    message = Message(
        destination=name,
        path=path,
        interface=asked.interface,
        member=asked.member,
        signature=asked.signature,
        body=list(asked.body),
    )
    try:
        async with asyncio.timeout(within_s):
            answer = await bus.call(message)
    except TimeoutError:
        raise NoAnswer(f"no answer within {within_s:g} s") from None
    if answer is None or answer.message_type is MessageType.ERROR or len(answer.body) != 1:
        raise DBusError("org.freedesktop.DBus.Error.Failed", clean(answer.body) if answer else "the bus has ended")
    return answer.body[0]
