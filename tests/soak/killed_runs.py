"""The demo, killed at some moment and resumed: whatever was killed, the report is stored as it must be, and nothing twice.

Flows in: how often, and a seed. Flows out: what was killed when, and what is wrong with what came of it. Decided here: that a
moment is a number of records in the journal and some milliseconds, so that all of a run is hit alike on a slow machine and on a
fast one; and that the web application is started anew with its state, as after a crash of the whole machine.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cellwright.record import read_run, verify
from cellwright.record.records import CellClosed, Note
from tests.soak.killed_gateways import Demo, go_on, serve_and_kill

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "expenses"
KILLED: Final = 50
RECORDS: Final = 60
"""About as many as the journal of the demo has."""
_BESIDE: Final = 3
_COMES_S: Final = 60.0
_ENDS_S: Final = 180.0

Victim = Literal["orchestrator", "whole tree", "kernel host", "gateway"]
VICTIMS: Final[tuple[Victim, ...]] = ("orchestrator", "whole tree", "kernel host", "gateway")


@dataclass(frozen=True)
class Moment:
    """When something is killed, and what."""

    records: int
    later_s: float
    victim: Victim


@dataclass(frozen=True)
class Killed:
    """What came of one run."""

    moment: Moment
    status: str
    """Of the run before it was resumed; `absent` when there was none yet."""
    faults: tuple[str, ...]


def killed_runs(times: int, seed: int) -> list[Killed]:
    """Kill the demo so many times, each at a moment of its own, and resume it."""
    chosen = random.Random(seed)  # noqa: S311 - moments, no secrets
    return each_killed(
        Moment(chosen.randrange(1, RECORDS), chosen.uniform(0, 0.05), VICTIMS[number % len(VICTIMS)])
        for number in range(times)
    )


def each_killed(moments: Iterable[Moment]) -> list[Killed]:
    """Kill the demo at each of these moments, a few beside each other: most of what they take is waiting."""
    with ThreadPoolExecutor(_BESIDE) as pool:
        return list(pool.map(killed_run, moments))


def killed_run(moment: Moment) -> Killed:
    """Run the demo, kill what is said when it is said, and resume what is left."""
    return _killed_gateway(moment) if moment.victim == "gateway" else _killed_command(moment)


def _killed_gateway(moment: Moment) -> Killed:
    with tempfile.TemporaryDirectory(prefix="cellwright-killed-") as name:
        folder, port = Path(name), _free_port()
        demo = Demo(EXAMPLE / "model.md", EXAMPLE / "expenses.csv", f"http://127.0.0.1:{port}/")
        runs = folder / "state" / "runs"
        with _application(folder / "application", port):
            run = serve_and_kill(demo, folder / "state", lambda: _records(runs) >= moment.records, moment.later_s)
        if run is None:
            return Killed(moment, "absent", ())
        status = read_run(run).status
        with _application(folder / "application", port):
            faults = go_on(demo, run)
        return Killed(moment, status, (*faults, *_demo().faults_of_report(folder / "application"), *_faults_of(run)))


def _killed_command(moment: Moment) -> Killed:
    with tempfile.TemporaryDirectory(prefix="cellwright-killed-") as name:
        folder, port = Path(name), _free_port()
        environment = {**os.environ, "CELLWRIGHT_STATE": str(folder / "state")}
        command = _demo().command(f"http://127.0.0.1:{port}/", folder / "out")
        with _application(folder / "application", port):
            run = _run_and_kill(command, environment, folder / "state" / "runs", moment)
        status = read_run(run).status if run is not None else "absent"
        with _application(folder / "application", port):
            if run is None:
                ended = subprocess.run(
                    command, check=False, capture_output=True, text=True, env=environment, timeout=_ENDS_S
                )
                (run,) = (folder / "state" / "runs").iterdir()
            elif status != "done":
                ended = _go_on(run, command, environment)
                run = max((folder / "state" / "runs").iterdir(), key=lambda one: one.name)  # a fork is newer
            else:
                ended = None
        faults = list(_demo().faults_of_report(folder / "application"))
        if ended is not None and ended.returncode != 0:
            faults.append(f"It ended with {ended.returncode}: {ended.stdout[-3000:]}{ended.stderr[-3000:]}")
        if ended is not None:
            faults += _demo().faults_of_sandbox(folder / "out")
        return Killed(moment, status, (*faults, *_faults_of(run)))


def _faults_of(run: Path) -> list[str]:
    found = read_run(run).status, verify(run).status
    return [] if found == ("done", "whole") else [f"Its run is {' and '.join(found)}."]


def _run_and_kill(command: list[str], environment: dict[str, str], runs: Path, moment: Moment) -> Path | None:
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        until = time.monotonic() + _COMES_S
        while process.poll() is None and _records(runs) < moment.records and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(moment.later_s)
        _kill(process, moment.victim)
        process.wait(_ENDS_S)
    found = sorted(runs.iterdir()) if runs.is_dir() else []
    return found[0] if found and (found[0] / "run.json").is_file() else None


def _kill(process: subprocess.Popen[bytes], victim: Victim) -> None:
    if process.poll() is not None:
        return
    below = _descendants(process.pid)
    match victim:
        case "orchestrator":
            victims = [process.pid]
        case "whole tree":
            victims = [process.pid, *below]
        case "kernel host":
            victims = [pid for pid in below if "\0cellwright_kernel\0" in _command_of(pid)]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _go_on(run: Path, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Resume it; one that went on in an empty sandbox, and was told so, is forked before that: a script does not adapt itself."""
    again = [word for option in ("--emulate", "--file", "--out", "--env") for word in _option(command, option)]
    at = _last_before_loss(run)
    what = ["resume", str(run)] if not at else ["fork", str(run), "--at", str(at)]
    line = [*command[:3], *what, "--rerun", "all", *again]
    return subprocess.run(line, check=False, capture_output=True, text=True, env=environment, timeout=_ENDS_S)


def _last_before_loss(run: Path) -> int:
    """Return the last cell that ended before the sandbox was replaced; 0 where it was not, or before the first."""
    last = 0
    for record in read_run(run).records:
        match record:
            case CellClosed(number=number):
                last = number
            case Note(topic="sandbox"):
                return last
            case _:
                pass
    return 0


def _option(command: list[str], option: str) -> list[str]:
    return command[(at := command.index(option)) : at + 2]


def _records(runs: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in runs.glob("*/journal.jsonl"))


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _command_of(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


@contextmanager
def _application(folder: Path, port: int) -> Iterator[None]:
    command = [sys.executable, str(EXAMPLE / "app.py"), "--state", str(folder), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready")
            yield
        finally:
            process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _demo() -> Any:
    spec = importlib.util.spec_from_file_location("expenses_demo", EXAMPLE / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
