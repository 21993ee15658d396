"""What the tests of pages that hang and of browsers that end share: a cell that must succeed, and the browser's process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from cellwright.session import Session
from cellwright_kernel.wire import Language, Text
from tests.ladder import process_of
from tests.spare import Spare

LANGUAGES: tuple[Language, ...] = ("python", "javascript")


async def ok(session: Session, language: Language, code: str) -> list[str]:
    """Execute a cell that must succeed; return its texts."""
    cell = await session.execute(code, language=language, deadline_s=60)
    assert cell.status == "ok", cell.text
    return [output.text for output in cell.outputs if isinstance(output, Text)]


async def in_both(spare: Spare, check: Callable[[Session, Language], Awaitable[None]]) -> None:
    """Check both languages beside each other, in a session each: for what waits, and is not asked how soon it ends."""

    async def in_one(language: Language) -> None:
        async with spare.session() as session:
            await check(session, language)

    async with asyncio.TaskGroup() as tasks:
        for language in LANGUAGES:
            tasks.create_task(in_one(language), name=language)


def chromium_of(session: Session) -> tuple[int, int]:
    """Return the process id of the session's Chromium, outside of the sandbox and inside."""
    outside = process_of("chromium", session.info.pid)
    status = Path(f"/proc/{outside}/status").read_text()
    (inside,) = (line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
    return outside, int(inside)
