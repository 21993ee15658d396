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
Decided here: Chromium's flags and preferences, when it counts as ready, and when a profile's lock is stale.

The page's size comes from the window, never from emulation, so that what the screen shows and what the page measures
are the same pixels. Preferences ask Chromium for no frame of its own, openbox.xml for none of the window manager's: the
page is as wide as the window, and begins at `(screenX, screenY + outerHeight - innerHeight)`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import ImageGrab

from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.devtools import Devtools, DevtoolsError
from cellwright_kernel.downloads import Downloads
from cellwright_kernel.egress import PROXY_URL, has_proxy
from cellwright_kernel.processes import is_alive, is_ending
from cellwright_kernel.windows import Metrics, Windows, measure
from cellwright_kernel.wire import HostSettings

_PORT_UP_S = 20.0
"""The port is up in 0.4 s on an idle machine."""

_READY_S = 20.0
_FREE_S = 8.0
"""The next cell waits for it: time for pages that cannot be stopped, which takes 5 s."""

_TOOLBAR = 87
"""Pixels that tab strip and toolbar take in Chromium 156: the first guess, corrected by measuring."""

_NOBODY = "http://127.0.0.1:9"
"""No way out, and nothing to say so: a port below 1024, where no cell can listen. Loopback itself is never proxied."""

_LISTENING = re.compile(r"^DevTools listening on (?P<url>ws://127\.0\.0\.1:(?P<port>\d+)/\S+)$", re.MULTILINE)

_FLAGS = (
    # With its last page Chromium would end, and be back after 1 s; with this, code that closes it can open the next one.
    "--keep-alive-for-test",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-quic",
    "--disable-breakpad",
    "--disable-session-crashed-bubble",
    "--hide-crash-restore-bubble",
    "--disable-search-engine-choice-screen",
    # Without this and NetworkTimeServiceQuerying it asks update and clients2 at Google in its first seconds, whatever pages do.
    "--component-updater=url-source=http://127.0.0.1:9/",
    # Without the web pages that draw the address bar's popup, 52 MB and a renderer less (PSS 321 MB against 373).
    "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,NetworkTimeServiceQuerying,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,"
    # Nor connections to the search engine, in case the user is going to ask it something.
    "PreconnectToSearch,"
    # Nor a renderer that waits for a page of another site.
    "SpareRendererForSitePerProcess,"
    # Nor a warning over every page that only has http.
    "HttpsUpgrades,HttpsFirstBalancedMode,HttpsFirstBalancedModeAutoEnable,HttpsFirstDialogUi",
    "--password-store=basic",
    "--ozone-platform=x11",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
    "--lang=en-US",
)


class Browser:
    """One Chromium with one profile."""

    def __init__(
        self, settings: HostSettings, display: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Name what to start; nothing runs yet.

        Args:
            settings: Its viewport, `home`, `chromium`, `chromium_sandbox` and the way out are used.
            display: Such as `:7`.
            folder: A private folder for log and profile.
            environment: What Chromium gets besides PATH, HOME, LANG and DISPLAY.
        """
        self._settings = settings
        self._display = display
        self._folder = folder
        self._profile = folder / "chromium"
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": settings.home,
            "LANG": "C.UTF-8",
            "DISPLAY": display,
            **(environment or {}),
        }
        self._child: Child | None = None
        self._devtools: Devtools | None = None
        self._windows: Windows | None = None
        self._downloads = Downloads(Path(settings.home))
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
        self._profile.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale_lock(self._profile)
        await asyncio.to_thread(self._write_preferences)
        command = [self._settings.chromium, *_FLAGS, *self._flags(), "about:blank"]
        self._child = await Child.start(
            "chromium",
            command,
            environment=self._environment,
            folder=self._folder,
            groups=self._settings.groups.get("browser", ()),
        )

    def _flags(self) -> list[str]:
        flags = [f"--user-data-dir={self._profile}", f"--remote-debugging-port={self._port}"]
        flags.append(f"--proxy-server={PROXY_URL if has_proxy(self._settings) else _NOBODY}")
        if not self._settings.chromium_sandbox:
            flags += ["--no-sandbox", "--test-type"]  # the second keeps the warning bar away, which would move the page
        return flags

    async def _attach(self) -> None:
        """Wait for the port, connect, and see the first page through until it is painted."""
        assert self._child is not None  # noqa: S101 - for the type checker; start() has just set it
        self._socket_url = await self._child.wait_for(self._listening, "DevTools port", _PORT_UP_S)
        await self._downloads.follow(self._socket_url)
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

    def _write_preferences(self) -> None:
        """Set what we want in the profile's preferences, and leave what Chromium wrote there."""
        path = self._profile / "Default" / "Preferences"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            kept = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            kept = {}
        path.write_text(json.dumps(_merged(kept, self._preferences())))

    def _preferences(self) -> dict[str, Any]:
        width, height = self._viewport
        downloads = str(self._downloads.folder)
        return {
            "browser": {
                "custom_chrome_frame": False,
                "check_default_browser": False,
                "has_seen_welcome_page": True,
                # --window-size would say the same, but overrides the size that a popup asks for.
                "window_placement": {
                    "left": 0,
                    "top": 0,
                    "right": width,
                    "bottom": height + _TOOLBAR,
                    "maximized": False,
                    "work_area_left": 0,
                    "work_area_top": 0,
                    "work_area_right": self._settings.width,
                    "work_area_bottom": self._settings.height,
                },
            },
            "profile": {
                "exit_type": "Normal",
                "exited_cleanly": True,
                "password_manager_enabled": False,
                "password_manager_leak_detection": False,
            },
            "credentials_enable_service": False,
            "autofill": {"profile_enabled": False, "credit_card_enabled": False},
            "translate": {"enabled": False},
            "search": {"suggest_enabled": False},
            "signin": {"allowed": False, "allowed_on_next_startup": False},
            "net": {"network_prediction_options": 2},  # one request a page asked for, not three
            "alternate_error_pages": {"enabled": False},
            "session": {"restore_on_startup": 5},
            "download": {"default_directory": downloads, "prompt_for_download": False, "directory_upgrade": True},
            "savefile": {"default_directory": downloads},
            "download_bubble": {"partial_view_enabled": False},  # it would lie over the page
            "https_only_mode_enabled": False,
            "https_first_balanced_mode_enabled": False,
        }


async def _pages(devtools: Devtools) -> list[str]:
    targets = (await devtools.call("Target.getTargets"))["targetInfos"]
    return [target["targetId"] for target in targets if target["type"] == "page"]


def _remove_stale_lock(profile: Path) -> None:
    """Remove the profile's lock if the process that holds it is gone.

    Raises:
        NotUp: it lives, so that a second Chromium would only open a window in it and end.
    """
    lock = profile / "SingletonLock"
    try:
        owner = int(lock.readlink().name.rpartition("-")[2])  # HOSTNAME-PID
    except (FileNotFoundError, ValueError):
        return
    if is_alive(owner):
        raise NotUp(f"Another Chromium (pid {owner}) uses this profile. End it, then restart the browser.")
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
        (profile / name).unlink(missing_ok=True)


def _merged(kept: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    both = dict(kept)
    for name, value in wanted.items():
        old = both.get(name)
        both[name] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return both
