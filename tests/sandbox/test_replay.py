"""Runs of a real sandbox, done again: what is the same is told to be, and what is not is found and named."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.waiting import until

from cellwright.errors import JournalCorrupt, UsageError
from cellwright.record import Run, read_run
from cellwright.record.records import RequestSent
from cellwright.replay.replay import Again, Replayed, replay
from cellwright.sandbox.base import Spec
from cellwright.screen import LOOKED_AGAIN_S
from cellwright.session import Session
from cellwright_kernel.wire import Area, Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

PAGE = """<!doctype html><title>Shop</title><body style="font: 20px sans-serif"><h1>Basket</h1><ul id=list></ul>
<script>
const show = async () => { list.innerHTML = (await (await fetch('/items')).json()).map(i => `<li>${i}</li>`).join('') }
const add = async (name) => { await fetch('/items', { method: 'POST', body: name }); await show() }
show()
</script>"""


@dataclass
class Shop:
    """A web application that remembers what was done to it."""

    port: int = 0
    items: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            shop.asked.append(f"GET {self.path}")
            self.answer(PAGE.encode() if self.path == "/" else json.dumps(shop.items).encode())

        def do_POST(self) -> None:
            shop.asked.append(f"POST {self.path}")
            shop.items.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer(b"done")

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if body.startswith(b"<") else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        shop.port = server.server_port
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield shop
        server.shutdown()
        serving.join()


async def record(spec: Spec, runs: Path, *cells: str | tuple[Language, str], rest_s: float = 0.0) -> Run:
    async with Session.open(spec, runs=runs) as session:
        for cell in cells:
            language, code = ("python", cell) if isinstance(cell, str) else cell
            await session.execute(code, language=language)
            await asyncio.sleep(rest_s)
    return read_run(session.run_dir)


def verdicts(replayed: Replayed) -> list[str]:
    return [cell.verdict for cell in replayed.cells]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


SMALL = Spec(browser=False)
DRAW = """
import random, subprocess, sys
before = pyautogui.pixel(350, 250)
started = subprocess.Popen([sys.executable, '-c', '''
import tkinter, random
root = tkinter.Tk(); root.overrideredirect(True); root.geometry("200x100+300+200")
root.configure(bg=f"#{random.randrange(0x1000000):06x}"); root.mainloop()
'''], start_new_session=True)
while pyautogui.pixel(350, 250) == before: time.sleep(0.02)
"""


async def test_a_web_task_is_done_again_without_the_web(shop: Shop, runs: Path) -> None:
    url = f"http://127.0.0.1:{shop.port}/"
    run = await record(
        Spec(allow=(f"127.0.0.1:{shop.port}",)),
        runs,
        f"await page.goto('{url}')\nlog(await page.title())",
        "await page.evaluate(\"add('bread')\")\nlog(await page.locator('li').all_inner_texts())",
        ("javascript", "await page.evaluate(\"add('milk')\")\nawait page.locator('li').allInnerTexts()"),
        "screen.settle()\ndisplay(pyautogui.screenshot())",
        rest_s=LOOKED_AGAIN_S + 0.2,  # so that what the screen shows after each counts
    )
    assert shop.items == ["bread", "milk"]
    shop.asked.clear()
    replayed = await replay(run, Again(), runs=runs)
    assert (verdicts(replayed), shop.asked, shop.items) == (["same"] * 4, [], ["bread", "milk"])
    own = read_run(replayed.folder)
    assert (own.info.driver, own.info.replay_of, own.status) == ("replay", run.info.run_id, "done")
    live = await replay(run, Again(is_live=True, keep_going=True), runs=runs)
    assert shop.items == ["bread", "milk", "bread", "milk"]
    # the shop had something in it before; the first cell's screen may look as it did until the page has asked for it
    assert verdicts(live)[1:] == ["differs"] * 3


async def test_what_is_about_to_change_something_is_on_disk_before_it_goes(shop: Shop, runs: Path) -> None:
    ask = f"import urllib.request as r\nr.urlopen('http://127.0.0.1:{shop.port}/items', data=b'eggs').read()"
    run = await record(SMALL.model_copy(update={"allow": (f"127.0.0.1:{shop.port}",)}), runs, "log(1)", ask)
    sent = [(one.cell, one.method, one.target) for one in run.records if isinstance(one, RequestSent)]
    assert sent == [(2, "POST", "/items")]


async def test_what_must_differ_is_no_difference_and_is_told(runs: Path) -> None:
    code = "import os, time, uuid, tempfile\nlog(os.getpid() and f'pid {os.getpid()}', time.time(), uuid.uuid4(), tempfile.mkdtemp(), object())"
    run = await record(SMALL, runs, code)
    replayed = await replay(run, Again(), runs=runs)
    assert verdicts(replayed) == ["same"]
    assert {one.name for one in replayed.cells[0].may_differ[1]} == {"process", "epoch", "uuid", "temporary", "address"}


async def test_a_changed_file_is_found_and_it_stops_there(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "sums.csv").write_text("1,2,3\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "sums.csv").write_text("1,2,4\n")
    spec = SMALL.model_copy(update={"files": (tmp_path / "sums.csv",)})
    run = await record(
        spec, runs, "log('ready')", "log(sum(map(int, open('sums.csv').read().split(','))))", "log('end')"
    )
    other = Again(files={"sums.csv": tmp_path / "other" / "sums.csv"})
    same, replayed = await asyncio.gather(replay(run, Again(), runs=runs), replay(run, other, runs=runs))
    assert [(cell.verdict, cell.reasons, cell.diff) for cell in same.cells] == [("same", (), ())] * 3
    assert verdicts(replayed) == ["same", "differs"]
    assert replayed.divergence is not None
    assert replayed.divergence.number == 2
    assert replayed.divergence.reasons == ("It said something else.",)
    assert replayed.divergence.diff == ("--- record", "+++ replay", "@@ -1,2 +1,2 @@", "-6", "+7", " ")


async def test_a_screen_that_differs_is_found_and_a_masked_one_is_not_looked_at(runs: Path) -> None:
    run = await record(SMALL, runs, DRAW, rest_s=LOOKED_AGAIN_S + 0.2)
    mask = Again(masks=(Area(300, 200, 200, 100),))
    replayed, masked = await asyncio.gather(replay(run, Again(), runs=runs), replay(run, mask, runs=runs))
    assert replayed.divergence is not None
    (picture,) = replayed.divergence.pictures
    assert (picture.what, picture.areas) == ("screen", (Area(300, 200, 200, 100),))
    assert (verdicts(masked), masked.cells[0].reasons) == (["same"], ())


async def test_a_screen_that_was_not_known_to_rest_is_told_and_does_not_count(runs: Path) -> None:
    run = await record(SMALL, runs, DRAW, "1 + 1")
    replayed = await replay(run, Again(), runs=runs)
    assert verdicts(replayed) == ["same", "same"]
    (note,) = replayed.cells[0].notes
    assert note.startswith("The screen after it differs: 200x100 at 300,200. It does not count: ")


async def test_what_came_late_may_come_at_another_moment(runs: Path) -> None:
    late = (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()\nlog('now')"
    )
    run = await record(SMALL, runs, late, "time.sleep(0.6)\nlog('then')")
    assert run.stored_cells[0].late
    assert verdicts(await replay(run, Again(keep_going=True), runs=runs)) == ["same", "same"]


async def test_interrupts_files_and_restarts_are_done_again(runs: Path) -> None:
    async with Session.open(SMALL, runs=runs) as session:
        await session.write_file("given.txt", b"from outside")
        await session.execute("kept = open('given.txt').read(); log(kept)")
        said: list[object] = []
        running = asyncio.ensure_future(session.execute("log('on')\nwhile True: pass", on_event=said.append))
        await until(lambda: said)
        await session.interrupt()
        await running
        await session.restart("python")
        await session.delete_file("given.txt")
        await session.execute("import os\nlog('kept' in globals(), os.path.exists('given.txt'))")
    run = read_run(session.run_dir)
    assert [cell.closed and cell.closed.status for cell in run.stored_cells] == ["ok", "interrupted", "ok"]
    replayed = await replay(run, Again(), runs=runs)
    assert [(cell.verdict, cell.reasons, cell.diff) for cell in replayed.cells] == [("same", (), ())] * 3


async def test_parts_of_a_run(runs: Path) -> None:
    run = await record(SMALL, runs, "a = 1", "log(a)", "log(a + 1)", "import random\nlog(random.random())")
    some = await replay(run, Again(first=2, last=3), runs=runs)
    assert [(cell.number, cell.verdict) for cell in some.cells] == [(2, "same"), (3, "same")]
    assert len(read_run(some.folder).stored_cells) == 3


async def test_what_cannot_be_done_again_is_refused_before_anything_runs(runs: Path) -> None:
    run = await record(SMALL.model_copy(update={"env": {"PLACE": "here"}}), runs, "import os\nlog(os.environ['PLACE'])")
    with pytest.raises(UsageError, match="Give the values again: --env PLACE=VALUE"):
        await replay(run, Again(), runs=runs)
    assert verdicts(await replay(run, Again(env={"PLACE": "here"}), runs=runs)) == ["same"]
    journal = run.folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"environ['PLACE']", b"environ['HOME'] "))
    with pytest.raises(JournalCorrupt, match="is not whole"):
        await replay(read_run(run.folder), Again(env={"PLACE": "here"}), runs=runs)


async def test_a_session_that_is_to_be_repeatable_is(runs: Path) -> None:
    python = (
        "import random, numpy\nlog(random.random(), numpy.random.rand(), list({'a', 'b', 'c', 'd', 'e'}), time.tzname)"
    )
    page = "await page.goto('data:text/html,')\nlog(await page.evaluate('[Math.random(), new Date().getTimezoneOffset()]'))"
    script = "const other = await context.newPage();\n" + "; ".join(
        f"await {one}.evaluate(() => matchMedia('(prefers-reduced-motion: reduce)').matches)"
        for one in ("other", "page")
    )
    still = "await page.evaluate(\"matchMedia('(prefers-reduced-motion: reduce)').matches\")"
    run = await record(
        Spec(deterministic=True),
        runs,
        python,
        page,
        still,
        ("javascript", "[Math.random(), Math.random()]"),
        ("javascript", script),
    )
    said = [cell.text for cell in run.cells]
    assert said[0].endswith("('UTC', 'UTC')")
    assert said[1].endswith(", 0]")
    assert (said[2], said[4]) == ("True", "true")
    replayed = await replay(run, Again(), runs=runs)
    assert [(cell.verdict, cell.reasons, cell.diff) for cell in replayed.cells] == [("same", (), ())] * 5
