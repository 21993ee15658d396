"""The figures that Cellwright promises, measured on this machine.

Flows in: nothing. Flows out: `Figures`. Decided here: that every speed is a ratio against a named baseline of the same
run, taken in turns, so that a machine that slows down slows both: `log(1)` over `POST /execute` against `print(1)` in a
stock ipykernel over raw jupyter_client; `1+1` in JavaScript against `1+1` in Python, the same way and in one session; and
`display(pyautogui.screenshot())` over `POST /execute` against the same with what PyAutoGUI and IPython bring.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from statistics import median, quantiles
from typing import Final

import httpx2
from pydantic import BaseModel

from cellwright import bench_screenshots
from cellwright.errors import EnvironmentMissing
from cellwright.sandbox.runtime import runtime_folder
from cellwright_kernel.wire import Language

TURNS = 5
ROUNDS = 20
_READY_S: Final = 30.0
"""Seconds that the service has to come up; 1 is usual."""
_ROUNDS_S: Final = 60.0
"""Seconds that the stock kernel has for its start and its rounds; 2 are usual, and baseline.py itself waits 30 for a reply."""
_END_S: Final = 30.0
_NOTHING_MEASURED: Final = "Usually this machine lacks something. Nothing was measured. Run `cellwright doctor`."


class Figures(BaseModel):
    """What was measured; times in milliseconds."""

    cold_session_ms: list[float]
    """From the request that opens a session to its first answer, `log(1)` included; one a session."""
    execute_ms: float
    """Median round trip of `log(1)` over `POST /execute` in a warm session."""
    execute_p99_ms: float
    """Of a hundred such round trips the slowest but one."""
    baseline_ms: float
    """Median round trip of `print(1)` in a stock ipykernel over raw jupyter_client."""
    baseline_p99_ms: float
    """As with `execute_p99_ms`."""
    ratio: float
    """`execute_ms / baseline_ms`, the median over the turns."""
    python_ms: float
    """Median round trip of `1+1` in Python over `POST /execute`, with calls in JavaScript between."""
    javascript_ms: float
    """The same in JavaScript."""
    javascript_ratio: float
    """`javascript_ms / python_ms`, the median over the turns."""
    screenshot_ms: float
    """Median round trip of `display(pyautogui.screenshot())` on a page over `POST /execute`."""
    stock_screenshot_ms: float | None
    """The same in a stock ipykernel, with scrot and Pillow; absent where scrot is not installed."""
    screenshot_ratio: float | None
    """`stock_screenshot_ms / screenshot_ms`, the median over the turns; absent as above."""


def measure() -> Figures:
    """Measure; takes about 35 s.

    Raises:
        EnvironmentMissing: The service did not come up.
    """
    with _service() as client, _baseline() as baseline:
        cold = [_cold(client) for _ in range(3)]
        session_id = uuid.uuid4().hex
        for _ in range(ROUNDS):  # the first calls of a session load what later ones have
            _execute(client, session_id)
        turns = [(_rounds(client, session_id), baseline(ROUNDS)) for _ in range(3 * TURNS)]  # p99 wants many
        _both_languages(client, session_id)
        pairs = [_both_languages(client, session_id) for _ in range(TURNS)]
        shots = _screenshots(client, session_id)
    return Figures(
        cold_session_ms=[round(ms) for ms in cold],
        execute_ms=round(median(ms for ours, _ in turns for ms in ours), 2),
        execute_p99_ms=_p99([ms for ours, _ in turns for ms in ours]),
        baseline_ms=round(median(ms for _, stock in turns for ms in stock), 2),
        baseline_p99_ms=_p99([ms for _, stock in turns for ms in stock]),
        ratio=round(median(median(ours) / median(stock) for ours, stock in turns), 2),
        python_ms=round(median(ms for python, _ in pairs for ms in python), 2),
        javascript_ms=round(median(ms for _, javascript in pairs for ms in javascript), 2),
        javascript_ratio=round(median(median(javascript) / median(python) for python, javascript in pairs), 2),
        screenshot_ms=round(median(ms for ours, _ in shots for ms in ours), 1),
        stock_screenshot_ms=_rounded(median, [ms for _, stock in shots for ms in stock]),
        screenshot_ratio=_rounded(median, [median(stock) / median(ours) for ours, stock in shots if stock]),
    )


def _cold(client: httpx2.Client) -> float:
    session_id = uuid.uuid4().hex
    took = _execute(client, session_id)
    client.delete(f"/v1/sessions/{session_id}")
    return took


def _rounds(client: httpx2.Client, session_id: str) -> list[float]:
    return [_execute(client, session_id) for _ in range(ROUNDS)]


def _both_languages(client: httpx2.Client, session_id: str) -> tuple[list[float], list[float]]:
    """`1+1` in Python and in JavaScript, one call after the other."""
    python, javascript = [], []
    for _ in range(ROUNDS):
        python.append(_execute(client, session_id, "python", "1+1", "2"))
        javascript.append(_execute(client, session_id, "javascript", "1+1", "2"))
    return python, javascript


def _screenshots(client: httpx2.Client, session_id: str) -> list[tuple[list[float], list[float]]]:
    """Screenshots, ours and stock, in turns on one screen."""

    def execute(code: str) -> str:
        return _answered(client, session_id, "python", code)[1]

    with_stock = bench_screenshots.begin(execute)
    turns = []
    for turn in range(TURNS + 1):
        ours = [_answered(client, session_id, "python", bench_screenshots.OURS)[0] for _ in range(ROUNDS // 2)]
        stock = bench_screenshots.stock(execute, ROUNDS // 4) if with_stock else []
        if turn:  # the first one loads what later ones have
            turns.append((ours, stock))
    if with_stock:
        bench_screenshots.end(execute)
    return turns


def _p99(values: list[float]) -> float:
    return round(quantiles(values, n=100)[98], 2)


def _rounded(middle: Callable[[list[float]], float], values: list[float]) -> float | None:
    return round(middle(values), 1) if values else None


def _execute(
    client: httpx2.Client, session_id: str, language: Language = "python", code: str = "log(1)", says: str = "1"
) -> float:
    took, said = _answered(client, session_id, language, code)
    if said != says:
        raise EnvironmentMissing(f"`{code}` did not answer {says} but: {said[:500]} Run `cellwright doctor`.")
    return took


def _answered(client: httpx2.Client, session_id: str, language: Language, code: str) -> tuple[float, str]:
    """What a call took, in milliseconds, and the text that it was answered with."""
    body = {"session_id": session_id, "language": language, "code": code}
    started = time.perf_counter()
    response = client.post("/execute", json=body)
    took = (time.perf_counter() - started) * 1000
    output = response.json().get("output") if response.status_code == 200 else None
    if output is None:
        raise EnvironmentMissing(f"`{code[:80]}` was not answered but: {response.text[:500]} Run `cellwright doctor`.")
    return took, "\n".join(item["text"] for item in output if item["type"] == "input_text")


@contextmanager
def _service() -> Iterator[httpx2.Client]:
    """Start `cellwright serve` as a process of its own, as a user would."""
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as state:
        environment = {**os.environ, "CELLWRIGHT_STATE": state}
        environment.pop("CELLWRIGHT_TOKEN", None)
        command = [sys.executable, "-m", "cellwright", "serve", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=environment) as process:
            try:
                printed = _until_ready(_Printed("`cellwright serve`", process))
                headers = {"Authorization": f"Bearer {(Path(state) / 'token').read_text().strip()}"}
                url = re.search(r"http://\S+", printed)
                with httpx2.Client(
                    base_url=url.group() if url else "", headers=headers, timeout=60, trust_env=False
                ) as client:
                    yield client
            finally:
                process.terminate()
                _ended(process)


def _until_ready(service: _Printed) -> str:
    printed = ""
    while (line := service.line(_READY_S)) != "ready":
        printed += line + "\n"
    return printed


class _Printed:
    """What a program prints, line by line.

    Args:
        name: What people call it.
        process: Its standard output is an unbuffered pipe.
    """

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        self._pipe = process.stdout
        self._name = name
        self._rest = b""

    def line(self, within_s: float) -> str:
        """Return its next line.

        Raises:
            EnvironmentMissing: It ended, or said none within `within_s` seconds.
        """
        end = time.monotonic() + within_s
        while b"\n" not in self._rest:
            if not select([self._pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                raise EnvironmentMissing(f"{self._name} said nothing for {within_s:g} s. {_NOTHING_MEASURED}")
            if not (read := os.read(self._pipe.fileno(), 65536)):
                raise EnvironmentMissing(f"{self._name} ended before it had said all. {_NOTHING_MEASURED}")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().strip()


def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until it has ended, as it was told to; kill it if it does not."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()


@contextmanager
def _baseline() -> Iterator[Callable[[int], list[float]]]:
    # -P: our own folder is not where its imports come from
    command = [str(runtime_folder() / "bin" / "python"), "-P", str(Path(__file__).with_name("baseline.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        asked, printed = process.stdin, _Printed("The stock kernel", process)
        assert asked is not None  # noqa: S101 - for the type checker; it was asked for

        def rounds(count: int) -> list[float]:
            asked.write(f"{count}\n".encode())
            return [seconds * 1000 for seconds in json.loads(printed.line(_ROUNDS_S))]

        try:
            rounds(ROUNDS)
            yield rounds
        finally:
            asked.close()
            _ended(process)
