"""The sandbox image alone, without an image: that it ends as soon as its kernel host has."""

from __future__ import annotations

import asyncio
import signal
import subprocess

import pytest
from tests.waiting import GUARD_S

from cellwright import alone


def started() -> subprocess.Popen[bytes]:
    """Start what stands in for a kernel host: it is there until it is killed, or its standard input closed."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


async def test_it_ends_with_its_kernel_host_and_not_before(capsys: pytest.CaptureFixture[str]) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    with started() as host:
        watching = asyncio.ensure_future(alone._end_with(host))
        await asyncio.sleep(0.02)
        assert not told.is_set()
        host.kill()
        async with asyncio.timeout(GUARD_S):
            await told.wait()
            await watching
    assert capsys.readouterr().out == "The kernel host ended with status -9; so does this container.\n"


async def test_that_it_is_stopped_itself_ends_the_watch_and_not_the_kernel_host() -> None:
    with started() as host:
        watching = asyncio.ensure_future(alone._end_with(host))
        await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait({watching})
        assert host.poll() is None
