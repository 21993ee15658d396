"""Keeps the desktop usable: display, window manager, clipboard, programs' bus and browser, as one thing.

Flows in: the settings. Flows out: a desktop that is up, or a sentence why not; later, sentences to the model about what
ended and was started again, or did not answer. Decided here: the order of starting (display and bus first, the rest side by
side), what counts as usable, from which moment on it is not, how often something that keeps ending is started again, that
after a cell which had to be ended each part is seen to answer, and that a picture of what a cell left is begun when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from cellwright_kernel.browser import Browser
from cellwright_kernel.child import NotUp
from cellwright_kernel.clipboard.clipboard import WHERE
from cellwright_kernel.clipboard.owner import ClipboardOwner
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.program_bus import ProgramBus
from cellwright_kernel.screenshots import Screenshot
from cellwright_kernel.wire import HostSettings

_RESTARTS: Final = 5
_RESTARTS_WITHIN_S: Final = 60.0
"""More restarts than that in this time, and the desktop is left as it is."""
_LOOK_EVERY_S: Final = 0.01
_PICTURE_S: Final = 1.0
"""When a screenshot takes longer, the display is asked whether it lives; 30 ms are usual. Both together take less time than
the outside waits for a word."""
_AGAIN_S: Final = 20.0
"""The longest wait for display and browser to be started again; 2 s are usual."""


class Usable(asyncio.Event):
    """Set while the desktop can be used.

    Whoever asks when one of them has just died is not told by news of it that are still to come: a cell that is sent a
    millisecond after it would be given the dead one.

    Args:
        is_ending: Says whether display or browser is dying, and somebody watches who will notice, and set this again.
    """

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        super().__init__()
        self._is_ending = is_ending

    def is_set(self) -> bool:
        """Look, and say."""
        if super().is_set() and self._is_ending():
            self.clear()
        return super().is_set()


class DesktopKeeper:
    """The one desktop of a sandbox.

    Args:
        settings: What it is made from.
        folder: A private folder.
        environment: What its processes get besides the usual.
        note: Tells the model a sentence.
        on_devtools: Awaited with the address of each new browser's DevTools, before anybody else can use it.
    """

    def __init__(
        self,
        settings: HostSettings,
        folder: Path,
        environment: Mapping[str, str],
        note: Callable[[str], None],
        on_devtools: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._environment = environment
        self._note = note
        self._on_devtools = on_devtools
        self._desktop = self._new_desktop()
        self._clipboard = ClipboardOwner(folder / "clipboard")
        self._bus = ProgramBus(folder, settings.home)
        self._browser: Browser | None = None
        self._display = ""
        """Its name; it stays, since the kernels know it."""
        self._last: Screenshot | None = None
        self._begun: tuple[int, asyncio.Task[Screenshot]] | None = None
        """The number of the last cell, and the picture of what it left, until somebody asks for it."""
        self._restarted_at: deque[float] = deque(maxlen=_RESTARTS)
        self._is_watching = False
        self.usable = Usable(lambda: self._is_watching and self._is_ending)
        """Cleared while something is being started again."""

    @property
    def browser_version(self) -> str:
        """As Chromium says it; empty until it was started."""
        return self._browser.version if self._browser else ""

    @property
    def display_name(self) -> str:
        """Such as `:7`; empty until it was started."""
        return self._display

    @property
    def browser_pid(self) -> int | None:
        """Process id of Chromium's first process; None where there is none."""
        return self._browser.pid if self._browser else None

    @property
    def devtools_url(self) -> str:
        """Of the browser's DevTools; empty where there is none."""
        return self._browser.devtools_url if self._browser else ""

    @property
    def bus_address(self) -> str | None:
        """Of the bus on which programs say what their windows show."""
        return self._bus.environment().get("AT_SPI_BUS_ADDRESS")

    def environment(self) -> dict[str, str]:
        """Return what programs need to find the desktop and the browser."""
        if not self._desktop.has_display:
            return {}
        found = {"DISPLAY": self._desktop.display, WHERE: str(self._clipboard.socket), **self._bus.environment()}
        if self._browser is not None:
            found["CELLWRIGHT_CDP"] = self._browser.cdp_url
            found["CELLWRIGHT_DOWNLOADS"] = str(self._browser.playwrights_downloads)
        return found

    async def start(self, port_is_up: asyncio.Event) -> None:
        """Start everything; return once it is usable.

        Args:
            port_is_up: Set as soon as `environment` is complete, for what can start beside the rest.

        Raises:
            NotUp: what did not come up, with the end of its log.
        """
        await self._desktop.start_display()
        self._display = self._desktop.display
        await self._bus.open(self._display)
        if self._settings.browser:
            self._browser = Browser(
                *(self._settings, self._display, self._folder, self._environment), on_devtools=self._on_devtools
            )
        failed: list[Exception] = []
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._desktop.start_window_manager())
                group.create_task(self._clipboard.start(self._display))
                if self._browser is not None:
                    group.create_task(self._browser.start())
                    await _port_of(self._browser)
                port_is_up.set()
        except* NotUp as errors:
            failed += errors.exceptions  # raised here, they would come out in a group
        if failed:
            raise failed[0]
        if (await self.screenshot()).pixels_sha256 == _black(self._settings):
            raise NotUp("The screen is black. Usually the window manager and the browser could not draw.")
        self.usable.set()

    async def keep(self) -> None:
        """Start again what ends by itself, until cancelled; say so each time."""
        while True:
            browser_ended = asyncio.ensure_future(self._browser.watch() if self._browser else _never())
            desktop_ended = asyncio.ensure_future(self._desktop.ended())
            self._is_watching = True
            try:
                await asyncio.wait({browser_ended, desktop_ended}, return_when=asyncio.FIRST_COMPLETED)
                self.usable.clear()  # at once: a cell may come while the other watch is being ended
            finally:
                self._is_watching = False
                browser_ended.cancel()
                desktop_ended.cancel()
                await asyncio.wait({browser_ended, desktop_ended})
            try:
                if not await self._start_again():
                    return
            finally:
                self.usable.set()

    def cell_ended(self, number: int) -> bool:
        """Return whether anything was drawn since the last screenshot, and begin one if so: it will be asked for at once."""
        self._begun = None
        if self._desktop.changed:
            taking = asyncio.ensure_future(self.screenshot())
            taking.add_done_callback(_forgive)
            self._begun = number, taking
            return True
        return False

    async def screenshot(self, *, left_by: int | None = None) -> Screenshot:
        """Take a picture of the whole desktop; when nothing was drawn since the last one it costs nothing.

        Args:
            left_by: Take the one that was begun when this cell ended, if it was the last one, and nobody has had that.

        Raises:
            NotUp: the display is gone, or did not answer and was ended.
        """
        if self._begun is not None and self._begun[0] == left_by:
            (_, taking), self._begun = self._begun, None
            return await taking
        taking = asyncio.ensure_future(self._desktop.screenshot(self._last))
        try:
            await asyncio.wait({taking}, timeout=_PICTURE_S)
            if not taking.done():
                await self._desktop.end_if_silent()  # if it was, the picture fails
                await asyncio.wait({taking}, timeout=_PICTURE_S)
            if not taking.done():  # its connection is to somebody else, who took the display's place and says nothing
                raise NotUp("No screenshot could be taken: who listens in the display's place does not answer.")
            self._last = await taking
            return self._last
        finally:
            taking.cancel()

    async def release_keys(self) -> int:
        """Let go of held keys and buttons; return how many there were."""
        return await self._desktop.release_keys()

    async def ensure_it_answers(self) -> list[str]:
        """See that the desktop answers, after a cell that had to be ended; return what to say of each page that did not.

        A display or a window manager that does not is started again, which tells of itself; what keeps a page from answering is
        stopped, or the page closed.
        """
        try:
            if not await self._desktop.end_if_silent():
                await self._desktop.end_if_silent_window_manager()
        except NotUp:  # the display has ended meanwhile, or hangs only now
            await self._desktop.end_if_silent()
        if self._is_watching and not self._desktop.running:
            self.usable.clear()  # `keep` will notice, and set it again
        with contextlib.suppress(TimeoutError):  # whoever needs the desktop waits for it in any case
            async with asyncio.timeout(_AGAIN_S):
                await self.usable.wait()
        return await self._browser.free_pages() if self._browser else []

    async def see_parts(self) -> None:
        """See, after each cell, that the clipboard can be reached and that clicks and keys arrive.

        A socket that was removed is made anew; a window manager that a signal has stopped is started again.
        """
        with contextlib.suppress(
            OSError
        ):  # the disk is full, say: who uses the clipboard is told that it cannot be reached
            await self._clipboard.see_socket()
        if self._desktop.kill_stopped_window_manager() and self._is_watching:
            self.usable.clear()  # `keep` will notice, and set it again

    async def stop(self) -> None:
        """End browser, bus and desktop, in this order."""
        if self._begun is not None:
            self._begun[1].cancel()
            await asyncio.wait({self._begun[1]})
        if self._browser is not None:
            await self._browser.stop()
        await self._clipboard.stop()
        await self._bus.close()
        await self._desktop.stop()

    @property
    def _is_ending(self) -> bool:
        return self._desktop.is_ending or (self._browser is not None and self._browser.is_ending)

    async def _start_again(self) -> bool:
        await self._desktop.end_if_silent()  # what is started on a display that hangs never comes up
        await self._desktop.display_is_seen()  # with it its clients end too, the browser a moment before or after it
        had_display, what = self._desktop.has_display, self._what_ended()
        now = asyncio.get_running_loop().time()
        if len(self._restarted_at) == _RESTARTS and now - self._restarted_at[0] < _RESTARTS_WITHIN_S:
            self._note(f"{what} It ended {_RESTARTS} times within a minute and is not started again.")
            return False
        self._restarted_at.append(now)
        try:
            try:
                means = await self._restart_what_ended(had_display=had_display)
            except (NotUp, OSError):  # once more: it may have been ended again meanwhile, or the display with it
                if had_display and not self._desktop.has_display:
                    had_display, what = False, self._what_ended()
                means = await self._restart_what_ended(had_display=had_display)
        except (NotUp, OSError) as error:  # the latter: its files could not be written, since the disk is full, say
            self._note(f"{what} It could not be started again: {error}")
            return False
        self._note(f"{what} {means}")
        return True

    def _what_ended(self) -> str:
        fault = self._desktop.fault or (self._browser and self._browser.fault) or "The desktop ended."
        return fault.partition(" Its log:")[0]

    async def _restart_what_ended(self, *, had_display: bool) -> str:
        """Start again what does not run, and no more than that; return what it means, as a sentence."""
        if not had_display:
            await self._restart_desktop()
            if self._browser is None:
                return "The display was started again; windows are closed."
            return "Display and browser were started again; windows and pages are closed."
        if self._browser is None or not self._desktop.running:
            await self._desktop.start_window_manager()
            return "It was started again; windows and pages are as they were."
        await self._browser.restart()
        return "A new browser was started on the same profile; pages that were open are closed."

    async def _restart_desktop(self) -> None:
        """Start display and browser again."""
        display = self._display
        if self._browser is not None:
            await self._browser.stop()
        await self._clipboard.stop()
        await self._desktop.stop()
        self._desktop = self._new_desktop(display)
        self._last = self._begun = None
        await self._desktop.start()
        await self._bus.open(display)
        await self._clipboard.start(display)
        if self._browser is not None:
            await self._browser.start()

    def _new_desktop(self, display: str | None = None) -> Desktop:
        return Desktop(self._settings, self._folder, self._environment, display=display)


def _forgive(begun: asyncio.Task[Screenshot]) -> None:
    """Let one fail that perhaps nobody asks for; who does is told."""
    if not begun.cancelled():
        begun.exception()


async def _never() -> None:
    """Wait for what does not come: the end of a browser that is not there."""
    await asyncio.get_running_loop().create_future()


async def _port_of(browser: Browser) -> None:
    """Wait until the browser's port is known; the one who starts it gives up if it never is."""
    while True:
        try:
            _ = browser.cdp_url
        except NotUp:
            await asyncio.sleep(_LOOK_EVERY_S)
        else:
            return


def _black(settings: HostSettings) -> str:
    return hashlib.sha256(bytes(3 * settings.width * settings.height)).hexdigest()
