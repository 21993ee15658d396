"""A Chromium of its own for an exported run, on the display that is there.

Flows in: DISPLAY, a private folder. Flows out: CELLWRIGHT_CDP in the environment, to which both languages attach. Decided here:
it is started as in a sandbox, so that pages have the same size and look, but with the network that this machine has; which
program it is; and that the page is smaller where the screen is.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from cellwright_kernel.browser import Browser
from cellwright_kernel.browser_flags import flags_without_proxy
from cellwright_kernel.screen.loop_thread import LoopThread
from cellwright_kernel.wire import HostSettings

_PROGRAMS: Final = ("/usr/lib/chromium/chromium",)
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FRAME_PIXELS: Final = 100
"""What of the screen's height the window needs besides the page."""
_START_S: Final = 60.0
_STOP_S: Final = 10.0


def started_chromium(ending: ExitStack, folder: Path) -> None:
    """Start it, name it in the environment, and have it end with the stack.

    Raises:
        RuntimeError: There is no Chromium.
        NotUp: It did not come up.
    """
    display = os.environ["DISPLAY"]
    width, height = _screen_size(display)
    settings = HostSettings(
        door="fd:3",
        width=width,
        height=height,
        viewport_width=min(1440, width),
        viewport_height=min(900, height - _FRAME_PIXELS),
        home=str(Path.home()),
        chromium=_program(),
        chromium_sandbox=os.getuid() != 0,  # it refuses to run as root with it
    )
    browser = Browser(settings, display, folder, dict(os.environ), flags=flags_without_proxy)
    thread = LoopThread("browser")
    thread.submit(browser.start()).result(_START_S)
    ending.callback(lambda: thread.submit(browser.stop()).result(_STOP_S))
    watching = thread.submit(browser.watch())
    ending.callback(watching.cancel)
    os.environ["CELLWRIGHT_CDP"] = browser.cdp_url
    os.environ["CELLWRIGHT_DOWNLOADS"] = str(browser.playwrights_downloads)
    ending.callback(lambda: os.environ.pop("CELLWRIGHT_CDP", None))


def _screen_size(display: str) -> tuple[int, int]:
    from Xlib.display import Display  # noqa: PLC0415 - only where there is a display

    connection = Display(display)
    try:
        screen = connection.screen()
        return screen.width_in_pixels, screen.height_in_pixels
    finally:
        connection.close()


def _program() -> str:
    chosen = os.environ.get("CELLWRIGHT_CHROMIUM")
    for program in (chosen,) if chosen else (*_PROGRAMS, *map(shutil.which, _NAMES), *_of_playwright()):
        if program and Path(program).is_file():
            return str(program)
    raise RuntimeError(
        "There is no Chromium on this machine. Nothing has run. Install it, or run `playwright install chromium`, or name its "
        "program in CELLWRIGHT_CHROMIUM."
    )


def _of_playwright() -> list[str]:
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    base = Path(chosen) if chosen else Path.home() / ".cache/ms-playwright"
    return sorted(map(str, base.glob("chromium-*/chrome-linux*/chrome")), reverse=True)
