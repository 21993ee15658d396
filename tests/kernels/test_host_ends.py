"""How a kernel host starts, and how it ends: let go of its leash, told by a signal, with settings or a kernel that cannot be."""

import asyncio
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
import pytest
from tests.hosts import let_go, running, started
from tests.waiting import GUARD_S

from cellwright_kernel.wire import HostSettings

pytestmark = pytest.mark.slow


async def test_the_leash_ends_everything(tmp_path):
    async with running(tmp_path) as host:
        assert (await host.ready()).ready
        await host.execute("import subprocess; subprocess.Popen(['sleep', '618'])")
        host.process.stdin.close()
        assert host.process.wait(GUARD_S) == 0


async def test_stopping_in_the_middle_of_a_cell_is_orderly(tmp_path):
    async with running(tmp_path) as host:
        assert (await host.ready()).ready
        async with asyncio.TaskGroup() as group:
            cell = group.create_task(host.execute("print('on'); import time; time.sleep(60)"))
            while not any(event.type == "heartbeat" for event in host.events):  # noqa: ASYNC110 - read by another task
                await asyncio.sleep(0.05)
            let_go(host.process)
        status, outputs = cell.result()
        assert (status, [output.text for output in outputs]) == (
            "interrupted",
            [
                "on\n",
                "The cell was ended because its sandbox is being ended. Output up to then is kept. Its variables, files, windows "
                "and pages go with it. Open a new session to go on.",
            ],
        )


def test_without_a_leash_a_signal_stops_it(tmp_path):
    made = HostSettings.model_validate({"door": "", "desktop": False})
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        (tmp_path / "home").mkdir()
        with started(tmp_path / "home", made, Path(short) / "door", stdin=subprocess.DEVNULL) as process:
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=f"{short}/door"), base_url="http://inside") as client:
                assert client.get("/ready", params={"timeout_s": "20"}, timeout=30).json()["ready"] is True
            process.send_signal(signal.SIGTERM)
            assert process.wait(GUARD_S) == 0


async def test_a_kernel_that_cannot_start_is_named_at_readiness(tmp_path):
    async with running(tmp_path, env={"PYTHONHOME": "/nonexistent"}) as host:
        ready = await host.ready()
        assert not ready.ready
        assert "No python kernel came up" in ready.missing[0]
        assert "encodings" in ready.missing[0]


def test_settings_that_cannot_be_read_are_refused():
    done = subprocess.run(
        [sys.executable, "-m", "cellwright_kernel", "--settings", "{}"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "these are no settings: Field required" in done.stderr
