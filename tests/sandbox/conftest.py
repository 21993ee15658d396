"""What the tests of the desktop share: a Chromium that keeps its own sandbox even for root, and a look at what is left running.

Decided here: a desktop's files lie outside pytest's own folders. Those are for their owner only, again with every pytest
that starts, and a Chromium under another uid could not enter them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.spare import Spare, spare_sessions


@pytest.fixture
def home() -> Iterator[Path]:
    """Give one test's desktop its own folder."""
    yield from _home()


@pytest.fixture(scope="module")
def module_home() -> Iterator[Path]:
    """Give the desktop that a module's tests share its own folder."""
    yield from _home()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def spare() -> AsyncIterator[Spare]:
    """Give new sessions to a module's tests, each of which needs one of its own."""
    async with spare_sessions() as spare:
        yield spare


@pytest.fixture(scope="session")
def chromium_in() -> Callable[[Path], str]:
    """Give the program to start a Chromium with whose files are in a folder."""
    return _chromium


@pytest.fixture(scope="session")
def processes_that_name() -> Callable[[Path], list[str]]:
    """Give the command lines of the running processes that name a folder."""
    return _processes_that_name


def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="desktop.") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _chromium(folder: Path) -> str:
    """Chromium's own sandbox does not work for root: drop to a bare numeric uid there."""
    chromium = "/usr/lib/chromium/chromium"
    if os.geteuid() != 0:
        return chromium
    os.chown(folder, 64001, 64001)
    wrapper = folder / "chromium-as-nobody"
    wrapper.write_text(
        "#!/bin/sh\n"
        f"chown -R 64001:64001 {folder}/chromium\n"
        f'exec setpriv --reuid 64001 --regid 64001 --clear-groups {chromium} "$@"\n'
    )
    wrapper.chmod(0o755)
    return str(wrapper)


def _processes_that_name(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and process.name != str(os.getpid()):
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found
