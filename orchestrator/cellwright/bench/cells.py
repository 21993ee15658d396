"""The figures that Cellwright promises, measured on this machine.

Flows in: nothing. Flows out: `Figures`. Decided here: that every speed is a ratio against a named baseline of the same
run, taken in turns, so that a machine that slows down slows both: `log(1)` over `POST /execute` against `print(1)` in a
stock ipykernel over raw jupyter_client; `1+1` in JavaScript against `1+1` in Python, the same way and in one session; and
`display(pyautogui.screenshot())` over `POST /execute` against the same with what PyAutoGUI and IPython bring.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import httpx2
from pydantic import BaseModel

from cellwright.bench import screenshots
from cellwright.bench.service import answered, program, service
from cellwright.errors import EnvironmentMissing
from cellwright_kernel.wire import Language

TURNS = 5
ROUNDS = 20
LANGUAGE_TURNS = 40
"""Of both languages: five gave a ratio so close to 1 another way in every run, these within 0.02 on idle cores."""


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
    """`screenshot_ms / stock_screenshot_ms`, the median over the turns; absent as above."""


def measure() -> Figures:
    """Measure; takes about 35 s.

    Raises:
        EnvironmentMissing: The service did not come up.
    """
    with service() as client, _baseline() as baseline:
        cold = [_cold(client) for _ in range(3)]
        session_id = uuid.uuid4().hex
        for _ in range(ROUNDS):  # the first calls of a session load what later ones have
            _execute(client, session_id)
        turns = [(_rounds(client, session_id), baseline(ROUNDS)) for _ in range(3 * TURNS)]  # p99 wants many
        _both_languages(client, session_id)
        pairs = [_both_languages(client, session_id) for _ in range(LANGUAGE_TURNS)]
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
        stock_screenshot_ms=_middle([ms for _, stock in shots for ms in stock], 1),
        screenshot_ratio=_middle([median(ours) / median(stock) for ours, stock in shots if stock], 2),
    )


def _cold(client: httpx2.Client) -> float:
    session_id = uuid.uuid4().hex
    took = _execute(client, session_id)
    client.delete(f"/v1/sessions/{session_id}")
    return took


def _rounds(client: httpx2.Client, session_id: str) -> list[float]:
    return [_execute(client, session_id) for _ in range(ROUNDS)]


def _both_languages(client: httpx2.Client, session_id: str) -> tuple[list[float], list[float]]:
    """`1+1` in Python and in JavaScript in turns; each comes as often after itself as after the other."""
    took: dict[Language, list[float]] = {"python": [], "javascript": []}
    for number in range(ROUNDS):
        for language in list(took)[:: 1 if number % 2 else -1]:
            took[language].append(_execute(client, session_id, language, "1+1", "2"))
    return took["python"], took["javascript"]


def _screenshots(client: httpx2.Client, session_id: str) -> list[tuple[list[float], list[float]]]:
    """Screenshots, ours and stock, in turns on one screen."""

    def execute(code: str) -> str:
        return answered(client, session_id, "python", code)[1]

    with_stock = screenshots.begin(execute)
    turns = []
    for turn in range(TURNS + 1):
        ours = [answered(client, session_id, "python", screenshots.OURS)[0] for _ in range(ROUNDS // 2)]
        stock = screenshots.stock(execute, ROUNDS // 4) if with_stock else []
        if turn:  # the first one loads what later ones have
            turns.append((ours, stock))
    if with_stock:
        screenshots.end(execute)
    return turns


def _p99(values: list[float]) -> float:
    return round(quantiles(values, n=100)[98], 2)


def _middle(values: list[float], places: int) -> float | None:
    return round(median(values), places) if values else None


def _execute(
    client: httpx2.Client, session_id: str, language: Language = "python", code: str = "log(1)", says: str = "1"
) -> float:
    took, said = answered(client, session_id, language, code)
    if said != says:
        raise EnvironmentMissing(f"`{code}` did not answer {says} but: {said[:500]} Run `cellwright doctor`.")
    return took


@contextmanager
def _baseline() -> Iterator[Callable[[int], list[float]]]:
    with program(Path(__file__).with_name("stock.py"), "The stock kernel") as ask:

        def rounds(count: int) -> list[float]:
            return [seconds * 1000 for seconds in json.loads(ask(str(count)))]

        rounds(ROUNDS)
        yield rounds
