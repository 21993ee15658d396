"""One session that forks, fills memory, disks and folders without end, all at once: another one does not feel it.

How long the other's cells take beside it, and alone, `cellwright bench --only neighbour` measures; here they are answered, and
nothing of the attack is left after it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serving import alive, descendants
from tests.waiting import GUARD_S

from cellwright.bench.neighbour import ATTACK
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SMALL = Spec(browser=False)


async def test_a_session_that_uses_up_everything_takes_nothing_from_another(tmp_path: Path) -> None:
    async with Session.open(SMALL, runs=tmp_path) as other, Session.open(SMALL, runs=tmp_path) as attacker:
        is_shared = "an even share" in attacker.info.limits["cpus"]
        for code in ATTACK.values():
            assert (await attacker.execute(code, deadline_s=GUARD_S)).status == "ok"
        if is_shared:  # without shares of the processors an ordinary user's other sessions wait for seconds
            answered = [await other.execute(f"log({n})", deadline_s=GUARD_S) for n in range(50)]
            assert [cell.text for cell in answered] == [str(n) for n in range(50)]
        everything = descendants(attacker.info.pid)
    assert alive(everything) == set()
