"""A cell that fills what can be written to: cells of both languages go on, and a kernel that cannot start says why."""

from __future__ import annotations

import asyncio

import pytest

from cellwright.errors import CellwrightError
from cellwright.sandbox.base import Limits, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SMALL = Spec(limits=Limits(tmp_bytes=48 * 1024**2))
LANGUAGES: tuple[Language, ...] = ("python", "javascript")
FILL = """
def fill(path):
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass
fill({path!r})
"""
CHROMIUM = """
import os, pathlib
def is_chromium(process):
    try:
        return (process / "cmdline").read_bytes().split(b"\\0")[0].endswith(b"/chromium")
    except OSError:
        return False
min(int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*") if is_chromium(process))
"""
"""Says the id of Chromium's first process."""
SHARED = """
import os, pathlib
shared = set()
for held in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
    try:
        shared.add(os.path.dirname(os.readlink(held))) if "/.org.chromium." in os.readlink(held) else None
    except OSError:
        continue
sorted(shared)
"""
"""Says in which folders what Chromium's processes share lies."""
SHOW = "await page.goto('data:text/html,<title>shown</title>'); display(await page.screenshot())"


async def test_cells_of_both_languages_go_on_when_a_cell_has_filled_a_folder() -> None:
    async with asyncio.TaskGroup() as tasks:
        for folder in ("/tmp", "/dev/shm", "/home/agent"):
            tasks.create_task(check_filled(folder))


async def check_filled(folder: str) -> None:
    async with Session.open(SMALL) as session:
        await _succeeds(session, "kept = 7" + FILL.format(path=f"{folder}/filled"), "python")
        await _succeeds(session, "for _ in range(20): print('x' * 20_000)", "python")
        assert (await session.execute("kept")).text == "7"
        chromium = await session.execute(CHROMIUM)
        for language in LANGUAGES:
            for _ in range(5):
                await _succeeds(session, SHOW, language)
            await session.restart(language)
            await _succeeds(session, SHOW, language)
        assert (await session.execute(CHROMIUM)).text == chromium.text


async def test_chromiums_processes_share_memory_in_a_folder_of_its_own() -> None:
    async with Session.open(SMALL) as session:
        await _succeeds(session, SHOW, "python")
        assert (await session.execute(SHARED)).text == "['/run/browser']"
        assert "/run/kernel-host and /run/browser by tmpfs size" in session.info.limits["tmp_bytes"]


async def test_a_kernel_without_room_for_its_own_files_says_so_and_the_other_goes_on() -> None:
    async with Session.open(SMALL) as session:
        await _succeeds(session, "kept = 7" + FILL.format(path="/run/kernel-host/filled"), "python")
        await _succeeds(session, "for _ in range(20): print('x' * 20_000)", "python")
        refused = await session.execute("1 + 1", language="javascript")
        assert refused.status == "kernel_died"
        assert (
            "no JavaScript kernel could be started. Its own files could not be written to /run/kernel-host/"
            in refused.text
        )
        assert "No space left on device" in refused.text
        assert (await session.execute("kept")).text == "7"
        await _succeeds(session, "import os; os.unlink('/run/kernel-host/filled')", "python")
        await _succeeds(session, "1 + 1", "javascript")


async def test_a_kernel_that_is_restarted_on_a_full_disk_is_there_or_says_why() -> None:
    async with Session.open(SMALL) as session:
        await _succeeds(session, FILL.format(path="/run/kernel-host/filled"), "python")
        try:
            await session.restart("python")
        except CellwrightError as error:
            assert "Its own files could not be written" in str(error)  # noqa: PT017 - either is right
        else:
            await _succeeds(session, "1 + 1", "python")


async def _succeeds(session: Session, code: str, language: Language) -> None:
    cell = await session.execute(code, language=language, deadline_s=30)
    assert (cell.status, cell.text) == ("ok", cell.text)
