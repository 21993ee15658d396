"""The demo's cells, sent to a gateway that is killed while it has them; its run is resumed, and the report is as it must be.

Flows in: a moment. Flows out: what is wrong with what came of it. Decided here: that a client sends the same cells as the demo's
model, one after another over `POST /v1/sessions/ID/cells`, and goes on where the resumed run ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from cellwright.record import Run, read_run
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given, resume
from cellwright_kernel.wire import Language

_ENDS_S: Final = 180.0
_FENCE: Final = re.compile(r"^```(python|javascript)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Demo:
    """What a client needs to do the demo."""

    script: Path
    source: Path
    url: str

    @property
    def cells(self) -> list[tuple[Language, str]]:
        """Return the cells of the scripted model, in order."""
        text = self.script.read_text(encoding="utf-8")
        return [("python" if language == "python" else "javascript", code) for language, code in _FENCE.findall(text)]


def serve_and_kill(demo: Demo, state: Path, is_time: Callable[[], bool], later_s: float) -> Path | None:
    """Do the demo over a gateway, and kill that somewhat later than it is time; return the folder of its run, if it has one."""
    place = demo.url.removeprefix("http://").removesuffix("/")
    options = ["--port", "0", "--allow", place, "--file", str(demo.source), "--env", f"EXPENSES_URL={demo.url}"]
    command = [sys.executable, "-m", "cellwright", "serve", *options]
    environment = {**os.environ, "CELLWRIGHT_STATE": str(state)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        client = threading.Thread(target=_send, args=(url, state, demo.cells))
        client.start()
        until = time.monotonic() + _ENDS_S
        while client.is_alive() and not is_time() and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(later_s)
        process.send_signal(signal.SIGKILL)
        client.join(_ENDS_S)
    found = sorted((state / "runs").iterdir()) if (state / "runs").is_dir() else []
    return found[0] if found and (found[0] / "run.json").is_file() else None


def go_on(demo: Demo, run: Path) -> list[str]:
    """Resume the run, and send it the cells that it did not have; return what is wrong."""
    return asyncio.run(_go_on(demo, read_run(run)))


def _send(url: str, state: Path, cells: list[tuple[Language, str]]) -> None:
    try:
        token = (state / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=_ENDS_S) as client:
            client.post("/v1/sessions", json={"session_id": "demo"}).raise_for_status()
            for language, code in cells:
                client.post("/v1/sessions/demo/cells", json={"code": code, "language": language}).raise_for_status()
    except (OSError, httpx2.HTTPError):
        return  # it was killed


async def _go_on(demo: Demo, run: Run) -> list[str]:
    given = Given(env={"EXPENSES_URL": demo.url}, files={demo.source.name: demo.source} if not run.records else {})
    async with resume(run.folder, plan_for(run, "all"), given) as resumed:
        cells = [
            await resumed.session.execute(code, language=language)
            for language, code in demo.cells[len(run.stored_cells) :]
        ]
    ended = [(cell.number, cell.status, cell.text[-1000:]) for cell in cells if cell.status != "ok"]
    return [json.dumps(one) for one in ended]
