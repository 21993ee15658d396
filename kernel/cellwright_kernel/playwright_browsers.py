"""The browsers that code finds when it launches one itself, with Playwright in either language.

Flows in: the path of the desktop's Chromium. Flows out: a folder as Playwright's own downloads would fill it, and the
environment that names it. Decided here: there is one Chromium, also where Playwright asks for its headless shell; and a
picture of a page never waits for a font that does not come (Playwright's own wait is 30 s, then there is no picture).

Such a browser runs without Chromium's own sandbox, which is Playwright's default: this whole place is one.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Final

_PROGRAMS: Final = {
    "chromium": ("chrome-linux64/chrome", "chrome-linux-arm64/chrome"),
    "chromium-headless-shell": (
        "chrome-headless-shell-linux64/chrome-headless-shell",
        "chrome-headless-shell-linux-arm64/chrome-headless-shell",
    ),
}
"""Where in its folder Playwright expects each program, on the two kinds of processors."""


def playwright_environment(folder: Path, chromium: str) -> dict[str, str]:
    """Fill the folder with links to Chromium, and return what Playwright is to find in its environment.

    Args:
        folder: Is made; a private one.
        chromium: Path of the program.
    """
    for name, revision in _revisions().items():
        for program in _PROGRAMS[name]:
            link = folder / f"{name.replace('-', '_')}-{revision}" / program
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(chromium)
    return {
        "PLAYWRIGHT_BROWSERS_PATH": str(folder),
        "PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS": "1",  # it looks into the folders of its own downloads
        "PW_TEST_SCREENSHOT_NO_FONTS_READY": "1",
    }


def _revisions() -> dict[str, str]:
    """Which revision of each browser the installed Playwright asks for; none without Playwright."""
    found = importlib.util.find_spec("playwright")  # not imported: that takes 0.3 s
    if found is None or found.origin is None:
        return {}
    listing = Path(found.origin).parent / "driver" / "package" / "browsers.json"
    browsers = json.loads(listing.read_text(encoding="utf-8"))["browsers"]
    return {browser["name"]: browser["revision"] for browser in browsers if browser["name"] in _PROGRAMS}
