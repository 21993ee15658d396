"""The screen in a run: kept when something was drawn, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.record.reader import read_run
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

_PAINT = "await page.evaluate(\"document.body.style.background = 'teal'\"); await page.screenshot()\nlog(1)"


async def test_a_page_that_is_drawn_is_kept_and_one_that_stays_is_not_looked_at(tmp_path: Path) -> None:
    async with Session.open(runs=tmp_path) as session:
        for code in ("page", "log(1)", "log(1)", _PAINT, "log(1)", "log(1)"):
            await session.execute(code)
        etag = (await session._lease.sandbox.door.screenshot() or (b"", ""))[1]
        assert await session._lease.sandbox.door.screenshot(etag) is None
    screens = [record for record in read_run(session.run_dir).records if record.type == "screen"]
    shown = [screen.after_cell for screen in screens]
    assert (shown[0], shown[-1], len(shown)) == (1, 4, len(set(shown)))
