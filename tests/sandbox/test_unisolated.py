"""Without a sandbox, for development: everything works, the caller is warned, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


async def test_kernel_and_browser_work_without_a_sandbox(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with Session.open(Spec(backend="none"), runs=tmp_path) as session:
        await session.execute("import os; await page.goto('data:text/html,<title>hi</title>')")
        cell = await session.execute("log(os.getuid() != 0); log(await page.title()); log(os.environ['HOME'])")
    works, title, home = cell.text.split("\n")
    assert (works, title) == ("True", "hi")
    assert not _is_there(home)
    assert capfd.readouterr().err.startswith("\x1b[1;31mWARNING: --sandbox none:")


def _is_there(path: str) -> bool:
    return Path(path).exists()
