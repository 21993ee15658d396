"""Many sessions at once in one service: each is opened, and all answer in the same moment.

Flows in: how many. Flows out: how long that took, and their memory. Decided here: that they come through `cellwright serve`,
as a user's would, and are opened three at a time, since a start takes two seconds of a core.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from cellwright.bench.processes import below, pss_of
from tests.serving import running_service

SESSIONS: Final = 24
STARTING: Final = 3
ANSWER_S: Final = 120.0


@dataclass(frozen=True)
class Answered:
    """What came of it."""

    sessions: int
    answers: list[str]
    """What each session logged, its own number."""
    displays: int
    """How many had a window manager that answered."""
    opened_s: float
    """From the first request to the last session."""
    answered_ms: float
    """All of them together."""
    pss_bytes: int
    """Summed over all sandboxes."""


async def many_sessions(count: int, state: Path) -> Answered:
    """Open sessions without a browser, have all answer at once, close them.

    Args:
        count: How many.
        state: Folder for the service's runs and token.
    """
    with running_service(state, "--no-browser", "--max-sessions", str(count)) as service:
        headers = {"Authorization": f"Bearer {service.token}"}
        limits = httpx2.Limits(max_connections=count)
        async with httpx2.AsyncClient(
            base_url=service.url, headers=headers, timeout=ANSWER_S, trust_env=False, limits=limits
        ) as client:
            names = [f"session-{number}" for number in range(count)]
            began = time.monotonic()
            await _open(client, names)
            opened = time.monotonic()
            answers = await asyncio.gather(*(_say(client, name, f"log({name[8:]!r})") for name in names))
            answered_ms = (time.monotonic() - opened) * 1000
            sizes = await asyncio.gather(*(_say(client, name, "log(pyautogui.size().width)") for name in names))
            pss = sum(pss_of(below(service.pid)).values())
    return Answered(count, answers, sizes.count("1440"), opened - began, answered_ms, pss)


async def _open(client: httpx2.AsyncClient, names: list[str]) -> None:
    starting = asyncio.Semaphore(STARTING)

    async def start(name: str) -> None:
        async with starting:
            response = await client.post("/v1/sessions", json={"session_id": name})
        assert response.status_code == 201, response.text

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(start(name))


async def _say(client: httpx2.AsyncClient, name: str, code: str) -> str:
    response = await client.post("/execute", json={"session_id": name, "language": "python", "code": code})
    assert response.status_code == 200, response.text
    return "\n".join(item["text"] for item in response.json()["output"])
