"""What the tests of pages that hang and of browsers that end share: a cell that must succeed, and the browser's process."""

from __future__ import annotations

from pathlib import Path

from cellwright.session import Session
from cellwright_kernel.wire import Language, Text
from tests.ladder import process_of

LANGUAGES: tuple[Language, ...] = ("python", "javascript")


async def ok(session: Session, language: Language, code: str) -> list[str]:
    """Execute a cell that must succeed; return its texts."""
    cell = await session.execute(code, language=language, deadline_s=60)
    assert cell.status == "ok", cell.text
    return [output.text for output in cell.outputs if isinstance(output, Text)]


def chromium_of(session: Session) -> tuple[int, int]:
    """Return the process id of the session's Chromium, outside of the sandbox and inside."""
    outside = process_of("chromium", session.info.pid)
    status = Path(f"/proc/{outside}/status").read_text()
    (inside,) = (line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
    return outside, int(inside)
