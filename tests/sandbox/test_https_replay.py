"""What the browser loads by HTTPS is recorded without being held, and a replay is answered from that, the site gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.secure_shop import LARGE_BYTES, Shop, secure_shop

from cellwright.record import Run, read_run
from cellwright.record.records import Exchanged, RequestSent
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.missed import Missed
from cellwright.replay.network import tape_of
from cellwright.replay.replay import Again, Replayed, replay
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TRUST = """cdp = await browser.new_browser_cdp_session()
await cdp.send('Security.setIgnoreCertificateErrors', {'ignore': True})"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with secure_shop(tmp_path) as shop:
        yield shop


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


async def record(shop: Shop, runs: Path, *cells: str) -> Run:
    async with Session.open(Spec(allow=(shop.allow,)), runs=runs) as session:
        for code in (TRUST, *cells):
            cell = await session.execute(code)
            assert cell.status == "ok", cell.text
    return read_run(session.run_dir)


def verdicts(replayed: Replayed) -> list[str]:
    return [cell.verdict for cell in replayed.cells]


def told(run: Run) -> list[tuple[int | None, str, str, int, bool]]:
    exchanges = [one for one in run.records if isinstance(one, Exchanged)]
    assert all(one.scheme == "https" and one.claimed for one in exchanges)
    return [(one.cell, one.method, one.target, one.status, one.body.kept) for one in exchanges]


async def test_a_web_task_by_https_is_done_again_with_the_site_gone(shop: Shop, runs: Path) -> None:
    run = await record(
        shop,
        runs,
        f"await page.goto('{shop.url}/away')\nlog(await page.title(), await page.locator('h1').inner_text())\n"
        "log(await page.evaluate('[logo.naturalWidth, getComputedStyle(document.querySelector(`h1`)).color]'))",
        "await page.evaluate(\"add('bread')\")\nlog(await page.locator('li').all_inner_texts())",
        "await page.evaluate(\"add('milk')\")\nlog(await page.locator('li').all_inner_texts())",
        "log(await page.evaluate(\"fetch('/cookie').then(r => r.text())\"))",
    )
    assert shop.items == ["bread", "milk"]
    sent = [(one.cell, one.method, one.target) for one in run.records if isinstance(one, RequestSent) and one.scheme]
    assert sent == [(3, "POST", "/items"), (4, "POST", "/items")]
    shop.asked.clear()
    replayed = await replay(run, Again(), runs=runs)
    assert (verdicts(replayed), shop.asked, shop.items) == (["same"] * 5, [], ["bread", "milk"])


async def test_another_body_than_in_the_record_is_named(shop: Shop, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "what.txt").write_text("bread")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "what.txt").write_text("butter")
    spec = Spec(allow=(shop.allow,), files=(tmp_path / "what.txt",))
    async with Session.open(spec, runs=runs) as session:
        for code in (TRUST, f"await page.goto('{shop.url}/')", "await page.evaluate('add', open('what.txt').read())"):
            assert (await session.execute(code)).status == "ok"
    run = read_run(session.run_dir)
    replayed = await replay(run, Again(files={"what.txt": tmp_path / "other" / "what.txt"}), runs=runs)
    assert verdicts(replayed) == ["same", "same", "differs"]
    assert replayed.divergence is not None
    assert replayed.divergence.reasons == (f"POST {shop.url}/items was sent with another body than in the record.",)


async def test_what_streams_or_is_downloaded_goes_on_and_is_told_to_be_missing(shop: Shop, runs: Path) -> None:
    run = await record(
        shop,
        runs,
        f"await page.goto('{shop.url}/')",
        "began = time.monotonic()\nlog(await page.evaluate('first(5)'))\nassert time.monotonic() - began < 3",
        "async with page.expect_download() as download:\n    await page.evaluate(\"location = '/file'\")\n"
        "log(len((await (await download.value).path()).read_bytes()))",
        "await page.evaluate(\"events = new EventSource('/events'); new Promise(done => events.onopen = done)\")",
    )
    texts = [cell.closed.outputs[0].text for cell in run.stored_cells[2:4] if cell.closed]  # type: ignore[union-attr]
    assert texts == ["['0', '1', '2', '3', '4']", "10000"]
    assert [one for one in told(run) if one[2] in {"/events", "/file"}] == [
        (3, "GET", "/events", 200, False),
        (4, "GET", "/file", 200, False),
        (5, "GET", "/events", 200, False),
    ]


async def test_a_body_above_what_is_kept_is_said_to_be_missing(shop: Shop, runs: Path) -> None:
    load = "log(await page.evaluate(\"fetch('/large').then(r => r.text()).then(t => t.length)\"))"
    run = await record(shop, runs, f"await page.goto('{shop.url}/')", load)
    assert (3, "GET", "/large", 200, False) in told(run)
    replayed = await replay(run, Again(), runs=runs)
    assert replayed.divergence is not None
    assert replayed.divergence.number == 3
    sentence = f"The answer to GET {shop.url}/large was not kept: it has {LARGE_BYTES} bytes."
    assert replayed.divergence.notes[-1] == sentence


async def test_the_first_document_of_a_popup_and_what_a_worker_and_a_frame_load_are_recorded(
    shop: Shop, runs: Path
) -> None:
    code = (
        f"await page.goto('{shop.url}/')\n"
        "async with page.expect_popup() as popup:\n    await page.evaluate(\"void window.open('/popup')\")\n"
        "opened = await popup.value\nawait opened.wait_for_load_state()\nlog(await opened.title())",
        "await page.evaluate('''new Promise(done => { const frame = document.createElement('iframe'); frame.src = '/frame'\n"
        "frame.onload = done; document.body.append(frame) })''')\nlog(page.frames[-1].url.rpartition('/')[2])",
        "log(await page.evaluate('''new Promise(done => { const code = `fetch('${location.origin}/worker').then(r => r.text()).then(postMessage)`\n"
        "new Worker(URL.createObjectURL(new Blob([code]))).onmessage = event => done(event.data) })'''))",
    )
    run = await record(shop, runs, *code)
    assert {one[2:] for one in told(run)} >= {(f"/{name}", 200, True) for name in ("popup", "frame", "worker")}
    shop.asked.clear()
    replayed = await replay(run, Again(), runs=runs)
    assert (verdicts(replayed), shop.asked) == (["same"] * 4, [])


LOOK = "log(await page.evaluate(\"fetch('/items').then(r => r.text())\"))"


async def test_a_tape_that_is_lifted_lets_the_browser_out_and_what_it_loads_then_is_recorded(
    shop: Shop, runs: Path
) -> None:
    run = await record(shop, runs, f"await page.goto('{shop.url}/')", LOOK)
    shop.items.append("new")
    shop.asked.clear()
    missed = Missed()
    spec = Spec(allow=(shop.allow,))
    async with Session.open(spec, runs=runs, tape=tape_of(run, missed, MayDiffer.read())) as session:
        await session.execute(TRUST)
        await session.execute(f"await page.goto('{shop.url}/')")
        assert ((await session.execute(LOOK)).text, shop.asked) == ("[]", [])
        session.go_live()
        assert (await session.execute(LOOK)).text == '["new"]'
    assert missed.taken() == ()
    exchanges = [one for one in read_run(session.run_dir).records if isinstance(one, Exchanged)]
    assert [(one.target, one.taped) for one in exchanges if one.target == "/items"] == [
        ("/items", True),
        ("/items", False),
    ]


async def test_a_browser_that_is_started_again_is_answered_from_the_record_too(shop: Shop, runs: Path) -> None:
    kill = (
        "import contextlib, signal\nfor found in pathlib.Path('/proc').glob('[0-9]*/cmdline'):\n"
        "    with contextlib.suppress(OSError):\n"  # processes come and go
        "        if b'--remote-debugging-port' in (line := found.read_bytes()) and b'--type=' not in line:\n"
        "            os.kill(int(found.parent.name), signal.SIGKILL)"
    )
    cells = f"import os, pathlib\n{kill}", TRUST, f"await page.goto('{shop.url}/')\nlog(await page.title())"
    run = await record(shop, runs, *cells)
    shop.asked.clear()
    # that the browser ended is told in the cell that killed it, or in the next one
    replayed = await replay(run, Again(keep_going=True), runs=runs)
    assert (verdicts(replayed)[-1], shop.asked) == ("same", [])


async def test_pages_open_as_ever_when_nobody_listens_any_more(shop: Shop, runs: Path) -> None:
    code = (
        f"await page.goto('{shop.url}/')\n"
        "async with page.expect_popup() as popup:\n    await page.evaluate(\"void window.open('/popup')\")\n"
        "opened = await popup.value\nawait opened.wait_for_load_state()\nlog(await opened.title())"
    )
    async with Session.open(Spec(allow=(shop.allow,)), runs=runs) as session:
        await session.execute(TRUST)
        assert session._lease._https is not None
        await session._lease._https.stop()
        assert [(await session.execute(code)).text for _ in range(3)] == ["/popup"] * 3
    assert told(read_run(session.run_dir)) == []


async def test_a_server_of_the_sandboxs_own_is_left_alone(shop: Shop, runs: Path, tmp_path: Path) -> None:
    serve = """import ssl, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *said): pass
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'own ' + self.path.encode())
server = HTTPServer(('127.0.0.1', 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('own.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
await page.goto(f'https://127.0.0.1:{server.server_port}/a')
log(await page.inner_text('body'))"""
    spec = Spec(allow=(shop.allow,), files=(tmp_path / "own.pem", tmp_path / "key.pem"))
    async with Session.open(spec, runs=runs) as session:
        assert (await session.execute(TRUST)).status == "ok"
        assert (await session.execute(serve)).text == "own /a"
    run = read_run(session.run_dir)
    assert told(run) == []
    assert verdicts(await replay(run, Again(), runs=runs)) == ["same", "same"]
