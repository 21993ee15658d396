"""The desktop: X display, window manager, screenshots, and keys that are let go.

    desktop = Desktop(settings, folder)          # HostSettings; a private, existing folder for its files
    await desktop.start()                        # or start_display(), then start_window_manager() beside the browser
    desktop.display                              # ":7"; goes into DISPLAY
    desktop.vnc_socket                           # Unix socket that serves VNC
    shot = await desktop.screenshot()            # .png .width .height .pixels_sha256
    shot = await desktop.screenshot(known=shot)  # the very same object when no pixel changed
    await desktop.end_if_silent()                # kills a display that does not answer; True when it did
    desktop.changed                              # False: nothing was drawn since; the next screenshot costs nothing
    await desktop.release_keys()                 # held keys and buttons are let go; returns how many
    desktop.running, desktop.fault               # True, None; or False and a sentence that says what ended
    await desktop.ended()                        # waits for that sentence
    await desktop.stop()

Flows in: the size, and a folder. Flows out: a display that other programs can use, and its pixels. Decided here: how
Xvnc and the window manager are started and when they count as up; the keyboard's layout; the background; a terminal's
keys for the clipboard; when a display counts as hung. Xvnc is X server and VNC server in one, for the memory of an Xvfb.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from Xlib import X, Xatom
from Xlib import display as xlib
from Xlib.error import ConnectionClosedError, DisplayError

from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.display_life import answers, is_there
from cellwright_kernel.held_keys import let_go
from cellwright_kernel.processes import is_ending, is_stopped
from cellwright_kernel.screenshots import Screenshot, Screenshots
from cellwright_kernel.window_manager_life import frame_extents, window_manager_of
from cellwright_kernel.wire import HostSettings

_BACKGROUND = 0x3A5F7D
"""RGB. Not black, so that a black screenshot always means a fault."""
_UP_S = 10.0
"""Xvnc is up in 0.1 s and openbox in 0.05 s; the rest is room for a machine under load."""
_CAUSE_S = 1.0
_ANSWER_S = 3.0
"""What gives no answer for so long hangs. A display answers in 0.2 ms, and in 74 at most where five processes are busy on
each core; a window manager in 26, and in 180."""
_SILENT = f"The {{}} did not answer for {_ANSWER_S:g} s, as if it had been stopped or hung, and was ended."
_STOPPED = "The {} had been stopped by a signal, so that no click arrived anywhere, and was ended."
_ROLES = {"Xvnc": "display", "openbox": "window manager"}
_LEFT = {
    "Xvnc": "Every window that was open is gone.",
    "openbox": "The windows are still there, but until it runs again without frames, and new ones may not get the keyboard.",
}
"""The parts, the cause of the other's end first, and what their end leaves."""

_RESOURCES = r"""XTerm*VT100.translations: #override \
  Ctrl Shift <Key>C: copy-selection(CLIPBOARD)\n\
  Ctrl Shift <Key>V: insert-selection(CLIPBOARD)\n\
  Shift <Key>Insert: insert-selection(CLIPBOARD, PRIMARY)
"""
"""What terminals do elsewhere: xterm's own keys know only what was marked last, and not what was copied."""

_WINDOW_MANAGER_SETTINGS = Path(__file__).with_name("openbox.xml")


class Desktop:
    """X display and window manager, as one thing."""

    def __init__(
        self,
        settings: HostSettings,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        *,
        display: str | None = None,
    ) -> None:
        """Name what to start; nothing runs yet.

        Args:
            settings: Its `width`, `height` and `home` are used.
            folder: A private folder for logs and the VNC socket.
            environment: What the processes get besides PATH, HOME, LANG and DISPLAY.
            display: Name that it must have, such as `:7`; absent: a free one.
        """
        self._settings = settings
        self._folder = folder
        self._wanted = [display] if display is not None else []
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": settings.home,
            "LANG": "C.UTF-8",
            **(environment or {}),
        }
        self._number: int | None = None
        self._children: dict[str, Child] = {}
        self._stopping = False
        self._screenshots: Screenshots | None = None
        self._letting_go: asyncio.Task[int] | None = None
        self._silent: tuple[Child, str] | None = None

    @property
    def display(self) -> str:
        """Name of the display, such as `:7`.

        Raises:
            NotUp: the display has not been started.
        """
        if self._number is None:
            raise NotUp("The desktop has no display yet; it has not been started.")
        return f":{self._number}"

    @property
    def vnc_socket(self) -> Path:
        """The Unix socket that serves VNC, readable by this user only."""
        return self._folder / "vnc"

    @property
    def fault(self) -> str | None:
        """What ended that should run, as a sentence with the last lines of its log; None when all is well."""
        ended = [name for name in _LEFT if name in self._children and not self._children[name].running]
        if self._stopping or not ended:
            return None
        child = self._children[ended[0]]
        how = self._silent[1] if self._silent and child is self._silent[0] else child.how_it_ended()
        return f"{how} {_LEFT[child.name]} Its log:\n{child.tail()}"

    @property
    def running(self) -> bool:
        """True while display and window manager run."""
        return len(self._children) == len(_LEFT) and all(child.running for child in self._children.values())

    @property
    def has_display(self) -> bool:
        """True while the display runs, with or without a window manager."""
        return "Xvnc" in self._children and self._children["Xvnc"].running

    @property
    def is_ending(self) -> bool:
        """True from the moment in which the display was killed, exits or has ended, noticed or not."""
        return "Xvnc" in self._children and (not self.has_display or is_ending(self._children["Xvnc"].pid))

    @property
    def changed(self) -> bool:
        """False only when nothing was drawn since the last screenshot."""
        return self._screenshots is None or self._screenshots.changed

    async def start(self) -> None:
        """Start display and window manager; return once windows can be opened and get the focus.

        Raises:
            NotUp: one of them did not come up; nothing is left running.
        """
        try:
            await self.start_display()
            await self.start_window_manager()
        except BaseException:
            await self.stop()
            raise

    async def start_display(self) -> None:
        """Start the X display alone; return once programs can connect to it.

        Raises:
            NotUp: it did not come up.
        """
        size = f"{self._settings.width}x{self._settings.height}"
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            # -displayfd: the server itself picks a free number, so that stale locks and other servers don't matter.
            command = ["Xvnc", *self._wanted, "-displayfd", str(writer), "-geometry", size, "-depth", "24"]
            command += ["-SecurityTypes", "None", "-rfbunixpath", str(self.vnc_socket), "-rfbport", "-1"]
            command += ["-nolisten", "tcp", "-noreset", "-desktop", "cellwright"]
            # For GLX it loads Mesa and LLVM: 73 MB resident instead of 21. EGL is there without it.
            command += ["-extension", "GLX"]
            try:
                child = await self._start_child("Xvnc", command, pass_fds=[writer])
            finally:
                os.close(writer)
            said = bytearray()
            self._number = await child.wait_for(lambda: _number_from(reader, said), "X display", _UP_S)
        finally:
            os.close(reader)
        with self._ending_as_not_up():
            async with asyncio.timeout(_UP_S):
                await asyncio.to_thread(_prepare_root, self.display)
        await self._pin_keyboard()

    async def start_window_manager(self) -> None:
        """Start the window manager; return once it manages windows. The display must be up.

        When it alone has ended, this starts it again.

        Raises:
            NotUp: it did not come up.
        """
        command = ["openbox", "--config-file", str(_WINDOW_MANAGER_SETTINGS), "--sm-disable"]
        child = await self._start_child("openbox", command)
        with self._ending_as_not_up():
            connection = await asyncio.wait_for(asyncio.to_thread(xlib.Display, self.display), _UP_S)
            try:
                async with asyncio.timeout(2 * _UP_S):
                    await child.wait_for(
                        lambda: asyncio.to_thread(window_manager_of, connection), "window manager", _UP_S
                    )
                    await self._see_it_answer(child, connection, _UP_S)
            finally:
                connection.close()

    async def ended(self) -> str:
        """Wait until one of the processes has ended by itself; return what ended, as a sentence."""
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(child.ended()) for child in self._children.values()]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            # The window manager ends with the display, and may be noticed first; the cause is what should be named.
            await self.display_is_seen()
            for wait in waits:
                wait.cancel()
        return self.fault or "The desktop was stopped."

    async def display_is_seen(self) -> None:
        """Wait until it is known whether the display lives: it answers a new client, or has ended, or hangs."""
        if self.has_display and not await asyncio.to_thread(is_there, self.display, _ANSWER_S):
            with suppress(TimeoutError):
                async with asyncio.timeout(_CAUSE_S):  # nobody is there any more, and that it has ended is told at once
                    await self._children["Xvnc"].ended()

    async def screenshot(self, known: Screenshot | None = None) -> Screenshot:
        """Take a picture of the whole desktop.

        Args:
            known: An earlier one; returned itself when no pixel has changed since. Nothing is grabbed when it is the
                last one and nothing was drawn since.

        Raises:
            NotUp: the display is gone.
        """
        self._require_display()
        if self._screenshots is None:
            self._screenshots = Screenshots(self.display)
        try:
            return await self._screenshots.take(known)
        except OSError as error:
            raise NotUp(f"No screenshot could be taken: {self.fault or error}") from error

    async def end_if_silent(self) -> bool:
        """Ask the display whether it lives, and kill one that does not answer: then it has ended like any that died.

        It may have been stopped by a signal, or hang. Nothing else ends what waits for it: programs block in their X library,
        where an interrupt does not reach them.

        Returns:
            True when it was silent.
        """
        if not self.has_display or await asyncio.to_thread(answers, self.display, _ANSWER_S):
            return False
        await self._end_silent("Xvnc")
        return True

    async def end_if_silent_window_manager(self) -> bool:
        """As `end_if_silent`, of the window manager; the display must answer. While it hangs, no click arrives anywhere."""
        if not self.running:
            return False
        with self._ending_as_not_up():
            connection = await asyncio.wait_for(asyncio.to_thread(xlib.Display, self.display), _ANSWER_S)
            try:
                async with asyncio.timeout(2 * _ANSWER_S):  # if the display hangs meanwhile
                    await self._see_it_answer(self._children["openbox"], connection, _ANSWER_S)
            except NotUp:
                await self._end_silent("openbox")
                return True
            finally:
                connection.close()
        return False

    def kill_stopped_window_manager(self) -> bool:
        """Kill a window manager that a signal has stopped, as a look at its process tells in 0.03 ms; return whether it was so."""
        manager = self._children.get("openbox")
        if manager is None or not manager.running or not is_stopped(manager.pid):
            return False
        self._kill(manager, _STOPPED)
        return True

    async def release_keys(self) -> int:
        """Let go every key and pointer button that is held; return how many there were.

        Raises:
            NotUp: the display is gone.
        """
        self._require_display()
        try:
            if self._letting_go is None or self._letting_go.done():
                self._letting_go = asyncio.ensure_future(asyncio.to_thread(let_go, self.display))
            # given up by whoever waited, it goes on where the server is stopped: one thread, however often it is asked
            return await asyncio.shield(self._letting_go)
        except (DisplayError, ConnectionClosedError) as error:
            raise NotUp(f"Held keys could not be let go: {self.fault or error}") from error

    async def stop(self) -> None:
        """End every process of the desktop; safe to call twice."""
        self._stopping = True
        for child in reversed(self._children.values()):
            await child.stop()
        if self._screenshots is not None:
            await self._screenshots.stop()

    async def _see_it_answer(self, manager: Child, connection: xlib.Display, within_s: float) -> None:
        asking = connection.screen().root.create_window(0, 0, 1, 1, 0, X.CopyFromParent)
        await manager.wait_for(
            lambda: asyncio.to_thread(frame_extents, connection, asking), "window manager's answer", within_s
        )

    async def _end_silent(self, name: str) -> None:
        child = self._children[name]
        self._kill(child, _SILENT)
        await child.ended()

    def _kill(self, child: Child, why: str) -> None:
        if child.running:
            self._silent = child, why.format(_ROLES[child.name])
        child.kill()

    def _require_display(self) -> None:
        """Ask before connecting: a refused connection makes python-xlib try TCP and leave both sockets open."""
        if not self.has_display:
            raise NotUp(self.fault or "The desktop is not running; it was stopped, or has not been started.")

    @contextmanager
    def _ending_as_not_up(self) -> Iterator[None]:
        """Have a display that ends, or hangs, while it is being started count as one that did not come up."""
        try:
            yield
        except (DisplayError, ConnectionClosedError, OSError) as error:
            raise NotUp(
                f"The display ended, or hung, while it was being started ({error!r}). {self.fault or ''}".rstrip()
            ) from error

    async def _start_child(self, name: str, command: list[str], pass_fds: list[int] | None = None) -> Child:
        # openbox reads its compose file again at every change of the keyboard mapping: 28 ms each, with none 0.5 ms
        environment = {**self._environment, "XCOMPOSEFILE": "/dev/null"}
        if self._number is not None:
            environment["DISPLAY"] = self.display
        child = await Child.start(name, command, environment=environment, folder=self._folder, pass_fds=pass_fds or ())
        self._children[name] = child
        return child

    async def _pin_keyboard(self) -> None:
        command = ["setxkbmap", "-rules", "evdev", "-model", "pc105", "-layout", "us", "-option", ""]
        environment = {**self._environment, "DISPLAY": self.display}
        child = await Child.start("setxkbmap", command, environment=environment, folder=self._folder)
        try:
            async with asyncio.timeout(_UP_S):
                how = await child.ended()
        finally:
            await child.stop()
        if not how.endswith("status 0."):
            raise NotUp(f"The keyboard's layout could not be set ({how}) Its log:\n{child.tail()}")


async def _number_from(reader: int, said: bytearray) -> int | None:
    """Return the number of the display once the server has said it whole; `said` keeps what it has said until then."""
    try:
        said += os.read(reader, 32)  # it writes the number and the newline apart
    except BlockingIOError:
        return None
    return int(said) if said.endswith(b"\n") else None


def _prepare_root(display: str) -> None:
    connection = xlib.Display(display)
    try:
        root = connection.screen().root
        root.change_attributes(background_pixel=_BACKGROUND)
        root.clear_area()
        root.change_property(Xatom.RESOURCE_MANAGER, Xatom.STRING, 8, _RESOURCES.encode())
        connection.sync()
    finally:
        connection.close()
