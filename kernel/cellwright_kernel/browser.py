"""The browser: one Chromium on the desktop, one profile, one DevTools endpoint.

    browser = Browser(settings, desktop.display, folder)   # HostSettings; a private, existing folder
    await browser.start()         # returns when a page is attached, has the viewport's size and is on the screen
    browser.cdp_url               # "http://127.0.0.1:PORT"; the same again after a restart
    browser.version               # "Chrome/156.0.8078.108"
    how = await browser.watch()   # run it as long as the browser is used: it sizes new windows; returns how Chromium ended
    await browser.free_pages()    # while it is watched: stops what keeps a page from answering, or closes it; returns sentences
    await browser.restart()       # a new process on the same profile, the same port
    await browser.viewport_origin()   # where the page's (0, 0) is on the screen
    browser.running, browser.fault    # True, None; or False and a sentence
    await browser.stop()

`start()` needs the display only, so it can run beside the window manager's start.

Flows in: display, viewport, whether there is a way out. Flows out: a browser that is ready, and how it ended.
Decided here: when it counts as ready. What it is started with stands in `browser_flags.py` and `browser_profile.py`.

The page's size comes from the window, never from emulation, so that what the screen shows and what the page measures
are the same pixels. Preferences ask Chromium for no frame of its own, openbox.xml for none of the window manager's: the
page is as wide as the window, and begins at `(screenX, screenY + outerHeight - innerHeight)`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from PIL import ImageGrab

from cellwright_kernel.browser_flags import browser_flags
from cellwright_kernel.browser_profile import BrowserProfile
from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.devtools import Devtools, DevtoolsError
from cellwright_kernel.downloads import Downloads
from cellwright_kernel.processes import is_ending
from cellwright_kernel.windows import Metrics, Windows, measure
from cellwright_kernel.wire import HostSettings

_PORT_UP_S = 20.0
"""The port is up in 0.4 s on an idle machine."""

_READY_S = 20.0
_FREE_S = 8.0
"""The next cell waits for it: time for pages that cannot be stopped, which takes 5 s."""

_LISTENING = re.compile(r"^DevTools listening on (?P<url>ws://127\.0\.0\.1:(?P<port>\d+)/\S+)$", re.MULTILINE)


class Browser:
    """One Chromium with one profile."""

    def __init__(
        self,
        settings: HostSettings,
        display: str,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        *,
        flags: Callable[..., list[str]] = browser_flags,
        on_devtools: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Name what to start; nothing runs yet.

        Args:
            settings: Its viewport, `home`, `chromium`, `chromium_sandbox`, `browser_folder` and the way out are used.
            display: Such as `:7`.
            folder: A private folder for log and profile.
            environment: What Chromium gets besides PATH, HOME, LANG and DISPLAY.
            flags: Returns what it is started with.
            on_devtools: Awaited with the address of each new Chromium's DevTools, before anybody else hears of it.
        """
        self._settings = settings
        self._flags = flags
        self._on_devtools = on_devtools
        self._display = display
        self._folder = folder
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": settings.home,
            "LANG": "C.UTF-8",
            "DISPLAY": display,
            **(environment or {}),
        }
        if settings.browser_folder is not None:
            self._environment["TMPDIR"] = settings.browser_folder
        self._child: Child | None = None
        self._devtools: Devtools | None = None
        self._windows: Windows | None = None
        self._downloads = Downloads(Path(settings.home))
        self._profile = BrowserProfile(folder / "chromium", settings, self._downloads.folder)
        self._port = 0
        self._socket_url = ""
        self._stopping = False
        self.version = ""
        """As Chromium says it, such as `Chrome/156.0.8078.108`; empty until started."""

    @property
    def cdp_url(self) -> str:
        """Where CDP clients attach; stays the same for the browser's life.

        Raises:
            NotUp: it has not been started.
        """
        if not self._port:
            raise NotUp("The browser has no DevTools port yet; it has not been started.")
        return f"http://127.0.0.1:{self._port}"

    @property
    def devtools_url(self) -> str:
        """The address of DevTools for the browser as a whole; empty until started, another one after a restart."""
        return self._socket_url

    @property
    def playwrights_downloads(self) -> Path:
        """The folder that Playwright is to put downloads into, in both languages."""
        return self._downloads.playwrights

    @property
    def pid(self) -> int | None:
        """Process id of Chromium's first process; None before it was started."""
        return self._child.pid if self._child else None

    @property
    def running(self) -> bool:
        """True while Chromium runs."""
        return self._child is not None and self._child.running

    @property
    def is_ending(self) -> bool:
        """True when Chromium was killed, is exiting or has ended: from that moment on, and not from when it is noticed."""
        return self._child is not None and (not self._child.running or is_ending(self._child.pid))

    @property
    def fault(self) -> str | None:
        """How Chromium ended, with the last lines of its log; None while it runs or when it was stopped."""
        if self._child is None or self._child.running or self._stopping:
            return None
        return f"{self._child.how_it_ended()} Its pages are closed. Its log:\n{self._child.tail()}"

    async def start(self) -> None:
        """Start Chromium; return when a page is attached, has the viewport's size and is painted on the screen.

        Raises:
            NotUp: it did not come up; nothing is left running.
        """
        self._stopping = False
        try:
            await self._start_child()
            await self._attach()
        except (DevtoolsError, OSError) as error:  # it, or the display, ended meanwhile; or the disk is full
            how = self.fault or error
            await self.stop()
            raise NotUp(f"Chromium did not come up. {how}") from error
        except BaseException:
            await self.stop()
            raise

    async def watch(self) -> str:
        """Size new windows until Chromium ends; return how it ended, as a sentence."""
        child, windows = self._child, self._windows
        if child is None or windows is None:
            raise NotUp("The browser cannot be watched; it has not been started.")
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(windows.keep()), group.create_task(self._downloads.keep())]
            how = await child.ended()
            for task in keeping:
                task.cancel()
        return self.fault or how

    async def free_pages(self) -> list[str]:
        """Have every page answer, or close it; return what to say of each that did not."""
        if self._windows is None or not self.running:
            return []
        try:
            async with asyncio.timeout(_FREE_S):
                return await self._windows.free()
        except TimeoutError:
            return []

    async def restart(self) -> None:
        """Start Chromium again on the same profile and port, ending it first if it runs.

        Raises:
            NotUp: as for `start`.
        """
        await self.stop()
        await self.start()

    async def viewport_origin(self) -> tuple[int, int]:
        """Return where the visible page's own (0, 0) is on the screen, in pixels.

        Raises:
            NotUp: no page answers.
        """
        try:
            async with Devtools.opened(self._socket_url) as devtools:
                pages = [await self._metrics_of(devtools, page) for page in await _pages(devtools)]
        except (DevtoolsError, OSError) as error:
            raise NotUp(f"No page could be asked where it is: {self.fault or error}") from error
        if not pages:
            raise NotUp("The browser has no page open.")
        return next((page for page in pages if page.visible), pages[0]).origin

    async def stop(self) -> None:
        """End Chromium and everything it started; safe to call twice."""
        self._stopping = True
        await self._downloads.stop()
        if self._devtools is not None:
            await self._devtools.close()
            self._devtools = None
        if self._child is not None:
            await self._child.stop()

    async def _start_child(self) -> None:
        self._profile.take()
        await asyncio.to_thread(self._profile.write_preferences)
        flags = self._flags(self._settings, profile=self._profile.folder, port=self._port)
        command = [self._settings.chromium, *flags, "about:blank"]
        self._child = await Child.start(
            "chromium",
            command,
            environment=self._environment,
            folder=self._folder,
            groups=self._settings.groups.get("browser", ()),
        )

    async def _attach(self) -> None:
        """Wait for the port, connect, and see the first page through until it is painted."""
        assert self._child is not None  # noqa: S101 - for the type checker; start() has just set it
        self._socket_url = await self._child.wait_for(self._listening, "DevTools port", _PORT_UP_S)
        await self._downloads.follow(self._socket_url)
        if self._on_devtools is not None:
            await self._on_devtools(self._socket_url)
        self._devtools = await Devtools.open(self._socket_url)
        self.version = (await self._devtools.call("Browser.getVersion"))["product"]
        self._windows = Windows(self._devtools, self._viewport)
        await self._windows.follow()
        try:
            async with asyncio.timeout(_READY_S):
                while (metrics := await self._windows.next()) is None:
                    pass
        except TimeoutError as error:
            raise NotUp(f"Chromium opened no page within {_READY_S:g} s. Its log:\n{self._child.tail()}") from error
        if metrics.inner != self._viewport:
            raise NotUp(
                f"The page measures {metrics.inner}, not {self._viewport}; the desktop may be too small for it."
            )
        await self._child.wait_for(lambda: self._painted(metrics), "painted page", _READY_S)

    async def _listening(self) -> str | None:
        """Return the address that Chromium prints; the file DevToolsActivePort is not written for a port that was named."""
        assert self._child is not None  # noqa: S101 - as above
        found = _LISTENING.search(self._child.log())
        if found is None:
            return None
        self._port = int(found["port"])
        return found["url"]

    @property
    def _viewport(self) -> tuple[int, int]:
        return self._settings.viewport_width, self._settings.viewport_height

    async def _metrics_of(self, devtools: Devtools, target_id: str) -> Metrics:
        attached = await devtools.call("Target.attachToTarget", targetId=target_id, flatten=True)
        return await measure(devtools, attached["sessionId"])

    async def _painted(self, metrics: Metrics) -> bool | None:
        """True once the corners of the page area are white, as about:blank is and the background is not."""
        left, top = metrics.origin
        right, bottom = left + metrics.inner[0], top + metrics.inner[1]
        screen = await asyncio.to_thread(ImageGrab.grab, xdisplay=self._display)
        corners = ((left, top), (right - 1, top), (left, bottom - 1), (right - 1, bottom - 1))
        return all(screen.getpixel(corner) == (255, 255, 255) for corner in corners) or None


async def _pages(devtools: Devtools) -> list[str]:
    targets = (await devtools.call("Target.getTargets"))["targetInfos"]
    return [target["targetId"] for target in targets if target["type"] == "page"]
