"""What the docker backend has of its own, where a daemon answers and has the image: its door; the rest is in `test_engines.py`."""

from __future__ import annotations

import pytest
from tests.engines import needs

from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs("docker")]

SMALL = Spec(backend="docker", browser=False)


async def test_nothing_inside_reaches_the_door_or_takes_its_place() -> None:
    code = """
import os
def tried(act):
    try: act()
    except OSError: return 'refused'
    return 'done'
log(*map(tried, (
    lambda: os.stat('/run/door/door'),
    lambda: os.mkdir('/run/door/door'),
    lambda: open('/run/door/x', 'w'),
    lambda: os.chmod('/run/door', 0o777),
    lambda: os.rename('/run/door', '/tmp/door'),
)))
"""
    async with Session.open(SMALL) as session:
        assert (await session.execute(code)).text == "refused refused refused refused refused"
        assert (await session.execute("log(open('/etc/resolv.conf').read() == '')")).text == "True"
