"""The bus of programs, with a real D-Bus daemon: started by the first connection, started again, and gone when closed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from dbus_fast import Message
from dbus_fast.aio import MessageBus
from tests.waiting import GUARD_S

from cellwright_kernel import program_bus
from cellwright_kernel.program_bus import ProgramBus

pytestmark = [pytest.mark.slow]


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Note what would be named on a display; tests of the desktop have one."""
    named: list[tuple[str, str]] = []
    monkeypatch.setattr(program_bus, "_name_on", lambda *what: named.append(what))
    return named


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[ProgramBus]:
    opened = ProgramBus(tmp_path, str(tmp_path))
    await opened.open(":0")
    yield opened
    await opened.close()


async def _names(bus: ProgramBus) -> list[str]:
    """Connect as a program does, and ask which names there are."""
    async with asyncio.timeout(GUARD_S):
        connection = await MessageBus(bus_address=bus.environment()["DBUS_SESSION_BUS_ADDRESS"]).connect()
        asked = Message("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "ListActivatableNames")
        try:
            answer = await connection.call(asked)
        finally:
            connection.disconnect()
    assert answer is not None
    return sorted(answer.body[0])


def _files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_nothing_runs_until_somebody_connects_and_then_only_the_registry_can_be_had(bus: ProgramBus) -> None:
    assert bus.pid == 0
    assert await _names(bus) == ["org.a11y.atspi.Registry", "org.freedesktop.DBus"]
    assert bus.pid > 0


async def test_the_same_address_serves_for_both_and_is_named_on_the_display_each_time(
    bus: ProgramBus, no_display: list[tuple[str, str]]
) -> None:
    environment = bus.environment()
    assert environment["AT_SPI_BUS_ADDRESS"] == environment["DBUS_SESSION_BUS_ADDRESS"]
    await bus.open(":0")
    assert no_display == [(":0", environment["AT_SPI_BUS_ADDRESS"])] * 2


async def test_a_daemon_that_was_killed_is_started_again_by_the_next_connection(bus: ProgramBus) -> None:
    await _names(bus)
    killed = bus.pid
    os.kill(killed, signal.SIGKILL)
    assert "org.a11y.atspi.Registry" in await _names(bus)
    assert bus.pid != killed


async def test_a_daemon_that_keeps_ending_is_given_up_and_programs_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_bus, "_AS_HANDED", "exit 1")
    bus = ProgramBus(tmp_path, str(tmp_path))
    await bus.open(":0")
    with pytest.raises(OSError, match=r"."):
        await _names(bus)
    assert bus.environment() == {}
    assert "bus" not in _files(tmp_path)
    await bus.close()


async def test_without_a_daemon_on_this_machine_there_is_no_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    bus = ProgramBus(tmp_path, str(tmp_path))
    await bus.open(":0")
    assert (bus.environment(), _files(tmp_path)) == ({}, [])
    await bus.close()


async def test_once_closed_no_process_and_no_socket_is_left(tmp_path: Path) -> None:
    bus = ProgramBus(tmp_path, str(tmp_path))
    await bus.open(":0")
    await _names(bus)
    pid = bus.pid
    await bus.close()
    await bus.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "bus" not in _files(tmp_path)
