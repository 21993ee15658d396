"""Whole sessions: what one takes to start and of memory, with a browser and without, beside a naive build of the same.

Flows in: nothing. Flows out: rows. Decided here: that memory is PSS of all processes of an idle session, taken once it has
stopped changing, and that ours and the naive build run at the same time, so that both share what both use. Ours has a kernel
host besides; the naive one isolates nothing, and records nothing.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import httpx2

from cellwright.bench.processes import below, pss_of
from cellwright.bench.rows import Row
from cellwright.bench.service import answered, program, service
from cellwright.errors import EnvironmentMissing
from cellwright.sandbox.runtime import chromium_path

COLD: Final = 3
_STILL: Final = 0.01
_LOOK_EVERY_S: Final = 0.7
_STILL_WITHIN_S: Final = 10.0
_NAIVE: Final = "Xvnc, openbox, stock ipykernel"


def measure() -> list[Row]:
    """Measure; takes about 20 s.

    Raises:
        EnvironmentMissing: A session or the naive build did not come up.
    """
    with (
        service() as client,
        program(Path(__file__).with_name("stock_desktop.py"), "The naive build", str(chromium_path())) as ask,
    ):
        without_ms = median(_opened_ms(client, browser=False) for _ in range(COLD))
        with_ms = median(_opened_ms(client, browser=True) for _ in range(COLD))
        naive_without_ms, naive = _asked(ask, "desktop")
        pid, session_id = _open(client, browser=False)
        small = _still_mb(pid), _still_mb(naive)
        client.delete(f"/v1/sessions/{session_id}")
        pid, session_id = _open(client, browser=True)
        naive_browser_ms, _ = _asked(ask, "browser")
        _attach_both(client, session_id)
        _asked(ask, "languages")
        large = _still_mb(pid), _still_mb(naive)
    browser = f"{_NAIVE}, Chromium by Playwright"
    return [
        _row("cold session without browser, first answer", without_ms, naive_without_ms, "ms", _NAIVE),
        _row("cold session, first answer", with_ms, naive_without_ms + naive_browser_ms, "ms", browser),
        _row("idle session without browser, PSS", *small, "MB", _NAIVE),
        _row("idle session, both languages attached, PSS", *large, "MB", f"{browser}, Node"),
    ]


def _row(what: str, ours: float, naive: float, unit: str, stock: str) -> Row:
    return Row.model_validate(
        {"what": what, "ours": round(ours), "baseline": round(naive), "unit": unit, "stock": stock}
    )


def _opened_ms(client: httpx2.Client, *, browser: bool) -> float:
    began = time.perf_counter()
    _, session_id = _open(client, browser=browser)
    took = (time.perf_counter() - began) * 1000
    client.delete(f"/v1/sessions/{session_id}")
    return took


def _open(client: httpx2.Client, *, browser: bool) -> tuple[int, str]:
    """Open a session, and have it answer; return its first process and its id."""
    session_id = uuid.uuid4().hex
    response = client.post("/v1/sessions", json={"session_id": session_id, "browser": browser})
    if response.status_code != 201:
        raise EnvironmentMissing(f"No session could be opened: {response.text[:500]} Run `cellwright doctor`.")
    _said(client, session_id, "python", "log(1)")
    return int(response.json()["sandbox"]["pid"]), session_id


def _attach_both(client: httpx2.Client, session_id: str) -> None:
    _said(client, session_id, "python", "await page.title()\nlog(1)")
    _said(client, session_id, "javascript", "await page.title(); console.log(1)")


def _said(client: httpx2.Client, session_id: str, language: str, code: str) -> None:
    _, said = answered(client, session_id, "javascript" if language == "javascript" else "python", code)
    if said.strip() != "1":
        raise EnvironmentMissing(f"A session did not answer 1 but: {said[:500]} Run `cellwright doctor`.")


def _asked(ask: Callable[[str], str], what: str) -> tuple[float, int]:
    answer = json.loads(ask(what))
    return float(answer["ms"]), int(answer["pid"])


def _still_mb(pid: int) -> float:
    """Memory of all below a process, once it has stopped changing, or at the end of the wait."""
    end = time.monotonic() + _STILL_WITHIN_S
    before, still = 0.0, 0
    while True:
        now = sum(pss_of(below(pid)).values()) / 1024**2
        still = still + 1 if abs(now - before) <= _STILL * now else 0
        if still >= 2 or time.monotonic() > end:
            return now
        before = now
        time.sleep(_LOOK_EVERY_S)
