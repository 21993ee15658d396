"""A real sandbox is brought back: what was read comes from the record, what was sent is sent again only if that is wanted."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from cellwright.record import read_run
from cellwright.record.records import CellRebuilt, Exchanged
from cellwright.replay.plan import Rerun, plan_for
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GET = "import urllib.request as r\nseen = r.urlopen('http://127.0.0.1:{port}/count').read().decode()\nlog(seen)"
POST = "answer = r.urlopen('http://127.0.0.1:{port}/add', data=b'1').read().decode()\nlog(answer)"


class Counting(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def _answer(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        data = f"request {len(self.asked)}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def counting() -> Iterator[int]:
    Counting.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("rerun", "sent", "rebuilt", "state"),
    [
        ("safe", [], [(1, "ok"), (2, None), (3, "ok")], "('request 3', False)"),
        ("recorded", [], [(1, "ok"), (2, "ok"), (3, "ok")], "('request 3', 'request 2')"),
        ("all", ["POST /add", "GET /count"], [(1, "ok"), (2, "ok"), (3, "ok")], "('request 5', 'request 4')"),
    ],
)
async def test_what_was_read_is_answered_from_the_record(
    rerun: Rerun, sent: list[str], rebuilt: list[tuple[int, str | None]], state: str
) -> None:
    with counting() as port:
        spec = Spec(browser=False, allow=(f"127.0.0.1:{port}",))
        async with Session.open(spec) as session:
            for code in (GET, POST, GET):
                assert (await session.execute(code.format(port=port))).status == "ok"
            session.conclude("failed")
        before = len(Counting.asked)
        plan = plan_for(read_run(session.run_dir), rerun)
        async with resume(session.run_dir, plan, Given()) as resumed:
            assert Counting.asked[before:] == sent
            cell = await resumed.session.execute("log((seen, globals().get('answer', False)))")
            assert cell.outputs[0].text == state  # type: ignore[union-attr]
            cell = await resumed.session.execute(GET.format(port=port))
            assert Counting.asked[before:] == [*sent, "GET /count"]
    run = read_run(session.run_dir)
    cells = [(record.number, record.status) for record in run.records if isinstance(record, CellRebuilt)]
    assert cells == rebuilt
    assert sum(isinstance(record, Exchanged) for record in run.records) == 3 + len(sent) + 1
    assert [one.opened.number for one in run.stored_cells] == [1, 2, 3, 4, 5]


def test_run_whose_program_was_killed_goes_on_with_its_variables(clean_environment: Path) -> None:
    command = Path(sys.executable).with_name("cellwright")
    code = "# timeout_s=60\nkept = 42\nimport time\ntime.sleep(50)"
    with subprocess.Popen([command, "exec", "--no-browser", code]) as process:
        until = time.monotonic() + 30
        while not list((clean_environment / "runs").glob("*/journal.jsonl")) or not _runs(clean_environment):
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    (folder,) = (clean_environment / "runs").iterdir()
    assert read_run(folder).status == "open"
    done = subprocess.run(
        [command, "resume", folder.name],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert "Cell 1 was not executed again. It had not ended when everything stopped" in done.stdout
    assert read_run(folder).status == "open"
    assert [cell.closed.status for cell in read_run(folder).stored_cells if cell.closed] == ["sandbox_lost"]
    done = subprocess.run(
        [command, "resume", folder.name, "--exec", "log('kept' in globals())"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "False"), done.stderr
    assert read_run(folder).status == "done"


def _runs(state: Path) -> bool:
    return any(b'"cell_opened"' in file.read_bytes() for file in (state / "runs").glob("*/journal.jsonl"))


def test_run_of_a_service_that_was_killed_goes_on_where_its_session_was(clean_environment: Path) -> None:
    command = Path(sys.executable).with_name("cellwright")
    with subprocess.Popen(
        [command, "serve", "--port", "0", "--no-browser"], stdout=subprocess.PIPE, text=True
    ) as serve:
        assert serve.stdout is not None
        assert any(line.strip() == "ready" for line in iter(serve.stdout.readline, ""))
        for code in ("x = 40", "x += 2"):
            subprocess.run([command, "exec", "--session", "mine", code], check=True, timeout=60, capture_output=True)
        (folder,) = (clean_environment / "runs").iterdir()
        refused = subprocess.run(
            [command, "resume", folder.name], check=False, capture_output=True, text=True, timeout=60
        )
        assert refused.returncode == 2
        assert "go on with `cellwright exec --session mine`" in refused.stderr
        serve.send_signal(signal.SIGKILL)
    done = subprocess.run(
        [command, "resume", folder.name, "--exec", "log(x)"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "42"), done.stderr
    run = read_run(folder)
    assert (run.status, [one.opened.number for one in run.stored_cells]) == ("done", [1, 2, 3])
