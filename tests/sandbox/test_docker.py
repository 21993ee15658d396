"""The docker backend, where a daemon answers and has the image: the conformance suite, the door, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.engines import names, needs
from tests.serving import alive, descendants

from cellwright.sandbox.base import Spec
from cellwright.sandbox.docker import DockerBackend
from cellwright.session import Session
from cellwright.testing.backend import check_backend

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs("docker")]

SMALL = Spec(backend="docker", browser=False)
LEFT_S = 5.0
KILLED = """
import asyncio
from cellwright.sandbox.base import Spec
from cellwright.session import Session

async def main():
    async with Session.open(Spec(backend='docker', browser=False)) as session:
        print(session.info.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_it_conforms_without_a_gap() -> None:
    before = names("docker")
    report = await check_backend(DockerBackend)
    assert report.known_gaps == ()
    assert names("docker") <= before


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


def test_a_killed_orchestrator_leaves_nothing(tmp_path: Path) -> None:
    before = names("docker")
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        sandbox = int(owner.stdout.readline())
        inside = descendants(sandbox) | {sandbox} | descendants(owner.pid)
        assert len(names("docker") - before) == 1
        os.kill(sandbox, signal.SIGSTOP)  # as a kernel host that does not stop
        owner.send_signal(signal.SIGKILL)
        killed = time.monotonic()
    while (alive(inside) or names("docker") - before) and time.monotonic() < killed + LEFT_S:
        time.sleep(0.05)
    assert alive(inside) == set()
    assert names("docker") <= before
