"""Eight hours of work in small: screenshots, page loads, tabs that are opened and closed, in both languages.

Flows in: how much of it. Flows out: what has grown, and how long it took. Decided here: what such work is: pages come from a
server on the sandbox's own loopback, each with a script, a style sheet and a picture, of which Chromium is to keep none
(what it keeps grows up to 80 MB, by its own rule); every cell must end `ok`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from cellwright.session import Session
from cellwright_kernel.wire import Language
from tests.soak.holdings import Holdings, growth_outside, growth_since, holdings, own_descriptors

SCREENSHOTS: Final = 2000
PAGE_LOADS: Final = 500
TABS: Final = 200
WARM_UP: Final = 8
"""Rounds until every cache, pool and connection is there that will be."""

_SERVER: Final = """
import http.server, io, threading
from PIL import Image
_picture = io.BytesIO()
Image.effect_noise((320, 200), 60).save(_picture, "PNG")
class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.partition("?")[0]
        kind, body = {
            "/style.css": ("text/css", b"body { font: 18px sans-serif; background: #eef }"),
            "/script.js": ("text/javascript", b"document.title = 'page ' + location.search.slice(1)"),
            "/picture.png": ("image/png", _picture.getvalue()),
        }.get(name, ("text/html", b"<!doctype html><link rel=stylesheet href=style.css><h1 id=h></h1><img src=picture.png>"
            b"<script src=script.js></script><script>h.textContent = document.title</script>"))
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("cache-control", "no-store")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
_served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
_served.handle_error = lambda *arguments: None  # a tab that is closed may still have asked for an icon
threading.Thread(target=_served.serve_forever, daemon=True).start()
home = f"http://127.0.0.1:{_served.server_port}/"
log(home)
"""
_SHOTS: Final[dict[Language, str]] = {
    "python": "display(pyautogui.screenshot())",
    "javascript": "display(await screen.shot())",
}
_LOADS: Final[dict[Language, str]] = {
    "python": "await page.goto('HOME?N')\nlog(await page.title())",
    "javascript": "await page.goto('HOME?N'); console.log(await page.title())",
}
_TABS: Final[dict[Language, str]] = {
    "python": "tab = await context.new_page()\nawait tab.goto('HOME?N')\nlog(await tab.title())\nawait tab.close()",
    "javascript": "{ const tab = await context.newPage(); await tab.goto('HOME?N'); "
    "console.log(await tab.title()); await tab.close(); }",
}


@dataclass(frozen=True)
class Worked:
    """What came of it."""

    screenshots: int
    page_loads: int
    tabs: int
    took_s: float
    growth: list[str]
    """A sentence for each thing that there is more of than after the warm-up."""
    before: Holdings
    after: Holdings


async def eight_hours(scale: float) -> Worked:
    """Work, and return what has grown.

    Args:
        scale: How much of it; 1 is all.
    """
    async with Session.open() as session:
        address = (await session.execute(_SERVER)).text
        for number in range(WARM_UP):
            await _round(session, address, number, tabs=2, shots=2)
        before, outside = await holdings(session), own_descriptors()
        began = time.monotonic()
        rounds, tabs = round(PAGE_LOADS * scale), 0
        for number in range(WARM_UP, WARM_UP + rounds):
            due = round((number - WARM_UP + 1) * TABS / PAGE_LOADS) - tabs
            await _round(session, address, number, tabs=due, shots=SCREENSHOTS // PAGE_LOADS)
            tabs += due
        took_s = time.monotonic() - began
        growth, after = await growth_since(before, session)
        growth += await growth_outside(outside)
    return Worked(rounds * SCREENSHOTS // PAGE_LOADS, rounds, tabs, took_s, growth, before, after)


async def _round(session: Session, address: str, number: int, *, tabs: int, shots: int) -> None:
    languages: tuple[Language, Language] = ("python", "javascript")
    await _say_title(session, _LOADS, languages[number % 2], address, number)
    for turn in range(shots):
        language = languages[(number + turn) % 2]
        cell = await session.execute(_SHOTS[language], language=language)
        assert (cell.status, len(cell.images)) == ("ok", 1), cell.text
    for turn in range(tabs):
        await _say_title(session, _TABS, languages[(number + turn) % 2], address, number)


async def _say_title(
    session: Session, codes: dict[Language, str], language: Language, address: str, number: int
) -> None:
    code = codes[language].replace("HOME", address).replace("?N", f"?{number}")
    cell = await session.execute(code, language=language)
    assert (cell.status, cell.text) == ("ok", f"page {number}"), cell.text
