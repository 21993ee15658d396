"""Runs of ten kinds, each recorded and done again: a replay that finds a difference where there is none is a false alarm.

Flows in: which runs, and how often each is done again. Flows out: the false alarms. Decided here: what a run may do, in
`ten_runs.md`; and that the application it talks to is gone when it is done again.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, cast

from cellwright.record import Run, read_run
from cellwright.replay.replay import Again, replay
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

AGAIN: Final = 2
_HERE: Final = Path(__file__).parent
_ROWS: Final = "kind,amount\n" + "".join(f"{'abc'[at % 3]},{at * 7 % 11}\n" for at in range(40))


@dataclass(frozen=True)
class Code:
    """One cell of a run."""

    language: Language
    code: str
    deadline_s: float | None


@dataclass(frozen=True)
class Done:
    """A run, and what its replays said of it."""

    name: str
    statuses: tuple[str, ...]
    """Of its cells, as they were recorded."""
    alarms: tuple[str, ...]


def run_names() -> tuple[str, ...]:
    """Return the names of all runs."""
    return tuple(_runs())


async def replayed_run(name: str, folder: Path, *, times: int = AGAIN) -> Done:
    """Record one of the runs, and do it again so many times."""
    with _application() as port:
        run = await _recorded(_runs()[name], port, folder / "runs")
    alarms = [alarm for _ in range(times) for alarm in await _alarms(run, folder / "runs")]
    ended = (cell.closed for cell in run.stored_cells)
    return Done(name, tuple(end.status if end else "open" for end in ended), tuple(alarms))


async def _recorded(cells: tuple[Code, ...], port: int, runs: Path) -> Run:
    url = f"http://127.0.0.1:{port}/"
    async with Session.open(Spec(allow=(f"127.0.0.1:{port}",)), runs=runs) as session:
        for cell in cells:
            await session.execute(cell.code.replace("SITE", url), language=cell.language, deadline_s=cell.deadline_s)
    return read_run(session.run_dir)


async def _alarms(run: Run, runs: Path) -> list[str]:
    replayed = await replay(run, Again(keep_going=True), runs=runs)
    return [
        f"cell {cell.number} {cell.verdict}: {' '.join(cell.reasons)} {' '.join(cell.diff)}"
        for cell in replayed.cells
        if cell.verdict != "same"
    ]


def _runs() -> dict[str, tuple[Code, ...]]:
    text = (_HERE / "ten_runs.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {name: tuple(_cells(part)) for name, part in zip(parts[::2], parts[1::2], strict=True)}


def _cells(part: str) -> Iterator[Code]:
    for language, deadline, code in re.findall(r"^```(\w+)(?: deadline (\d+))?\n(.*?)^```$", part, re.M | re.S):
        yield Code(cast("Language", language), code, float(deadline) if deadline else None)


@contextmanager
def _application() -> Iterator[int]:
    """Serve the page, a table, and rows that can be added."""
    rows: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            match self.path:
                case "/rows":
                    self.answer("application/json", json.dumps(rows))
                case "/rows.csv":
                    self.answer("text/csv", _ROWS)
                case "/":
                    self.answer("text/html", (_HERE / "page_of_runs.html").read_text(encoding="utf-8"))
                case _:
                    self.answer("text/plain", "", status=404)

        def do_POST(self) -> None:
            rows.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.answer("text/plain", "added")

        def answer(self, media_type: str, text: str, *, status: int = 200) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{media_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()
