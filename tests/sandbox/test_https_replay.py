"""What the browser loads by HTTPS is recorded without being held, and a replay is answered from that, the site gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sandbox.secure_shop import Shop, secure_shop

from cellwright.record import Run, read_run
from cellwright.record.records import Exchanged, RequestSent
from cellwright.replay.replay import Again, Replayed, replay
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TRUST = """cdp = await browser.new_browser_cdp_session()
await cdp.send('Security.setIgnoreCertificateErrors', {'ignore': True})"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with secure_shop(tmp_path) as shop:
        yield shop


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


async def record(shop: Shop, runs: Path, *cells: str) -> Run:
    async with Session.open(Spec(allow=(shop.allow,)), runs=runs) as session:
        for code in (TRUST, *cells):
            cell = await session.execute(code)
            assert cell.status == "ok", cell.text
    return read_run(session.run_dir)


def verdicts(replayed: Replayed) -> list[str]:
    return [cell.verdict for cell in replayed.cells]


def told(run: Run) -> list[tuple[int | None, str, str, int, bool]]:
    exchanges = [one for one in run.records if isinstance(one, Exchanged)]
    assert all(one.scheme == "https" and one.claimed for one in exchanges)
    return [(one.cell, one.method, one.target, one.status, one.body.kept) for one in exchanges]


async def test_a_web_task_by_https_is_done_again_with_the_site_gone(shop: Shop, runs: Path) -> None:
    run = await record(
        shop,
        runs,
        f"await page.goto('{shop.url}/away')\nlog(await page.title(), await page.locator('h1').inner_text())\n"
        "log(await page.evaluate('[logo.naturalWidth, getComputedStyle(document.querySelector(`h1`)).color]'))",
        "await page.evaluate(\"add('bread')\")\nlog(await page.locator('li').all_inner_texts())",
        "await page.evaluate(\"add('milk')\")\nlog(await page.locator('li').all_inner_texts())",
        "log(await page.evaluate(\"fetch('/cookie').then(r => r.text())\"))",
    )
    print(told(run))
    assert shop.items == ["bread", "milk"]
    sent = [(one.cell, one.method, one.target) for one in run.records if isinstance(one, RequestSent) and one.scheme]
    assert sent == [(3, "POST", "/items"), (4, "POST", "/items")]
    shop.asked.clear()
    replayed = await replay(run, Again(), runs=runs)
    print(replayed.cells)
    assert (verdicts(replayed), shop.asked, shop.items) == (["same"] * 5, [], ["bread", "milk"])
