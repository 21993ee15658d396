"""What every engine's sandbox keeps: the conformance suite, and that nothing is left of it when its owner is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.engines import EACH, name_of, names
from tests.serving import alive, descendants

from cellwright.sandbox import backend_named
from cellwright.sandbox.place import sockets_folder
from cellwright.testing.backend import check_backend

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

LEFT_S = 5.0
"""Seconds after which nothing may be left of a sandbox whose owner was killed."""
OWNER = """
import asyncio, sys
from cellwright.sandbox.base import Spec
from cellwright.session import Session

async def main():
    async with Session.open(Spec(backend=sys.argv[1], browser=False)) as session:
        print(session.info.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("engine", EACH)
async def test_it_conforms_without_a_gap_and_leaves_nothing(engine: str) -> None:
    before = descendants(os.getpid())
    report = await check_backend(lambda: backend_named(engine))
    assert report.known_gaps == ()
    # the cleaner among them: it ends with the last sandbox. What an engine left behind and nobody has reaped is no process
    assert alive(descendants(os.getpid()) - before) == set()


@pytest.mark.parametrize("engine", EACH)
@pytest.mark.parametrize("is_hostile", [False, True], ids=["as it is", "with a kernel host that does not stop"])
def test_a_killed_orchestrator_leaves_nothing(engine: str, is_hostile: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    command = [sys.executable, "-c", OWNER, engine]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        sandbox = int(owner.stdout.readline())
        processes = descendants(sandbox) | {sandbox} | descendants(owner.pid)
        name = name_of(engine, sandbox)
        folder = sockets_folder() / name.removeprefix("cellwright-")
        assert folder.is_dir()
        if is_hostile:
            os.kill(sandbox, signal.SIGSTOP)
        owner.send_signal(signal.SIGKILL)
        killed = time.monotonic()
    while (alive(processes) or folder.exists() or name in names(engine)) and time.monotonic() < killed + LEFT_S:
        time.sleep(0.05)
    assert alive(processes) == set()
    assert not folder.exists()
    assert name not in names(engine)
