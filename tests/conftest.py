"""Nothing leaves the machine by accident, and nothing of the machine reaches a test: no key, no proxy, no run of the user."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Generator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from pydantic import JsonValue

from cellwright.model.sent import observers

if TYPE_CHECKING:
    from cellwright_kernel.desktop import Desktop

pytest_plugins = ["tests.engines"]

CLEARED = ("PROXY", "OPENAI", "CELLWRIGHT_URL", "CELLWRIGHT_TOKEN", "CELLWRIGHT_TRACE", "CELLWRIGHT_STATE", "XDG_STATE")

_numbers = count()

# a script that starts the tests with `&` has them ignore interrupts, and whatever a test starts would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)

# where Python is told to keep no bytecode, all files of tests and each of the hundreds of processes that tests start compile
# everything anew: 1.5 s before the first test, and 0.3 s a process
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def _held_against_the_sdk(body: Mapping[str, JsonValue]) -> None:
    """Every request that a test makes by the model's adapter is one that the SDK's own types allow."""
    from cellwright.emulator.sdk_types import check  # openai is imported for who asks a model only

    check(body)


observers.append(_held_against_the_sdk)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what stays anyway: to look through all modules again and again took a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each test's folder of runs and tokens is."""
    return tmp_path_factory.getbasetemp()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, states: Path) -> Path:
    """Clear what belongs to the caller; the sandbox's runtime stays, runs and tokens go to a folder of the test's own.

    It is made by who first writes into it, as a user's is: `mktemp` looks through all folders that tests before had.
    """
    for name in list(os.environ):
        if any(part in name.upper() for part in CLEARED):
            monkeypatch.delenv(name)
    state = states / f"state-of-{next(_numbers)}"
    monkeypatch.setenv("CELLWRIGHT_STATE", str(state))
    monkeypatch.setenv("CELLWRIGHT_PRICES", os.devnull)  # the user's own table would change what runs cost
    return state


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Where a test's desktop has its files."""
    return tmp_path


@pytest_asyncio.fixture
async def desktop(home: Path) -> AsyncIterator[Desktop]:
    """Give a test a desktop of its own: display and window manager."""
    from tests.desktops import running_desktop  # nothing of the inside is imported for who needs no desktop

    async with running_desktop(home) as running:
        yield running


@pytest_asyncio.fixture
async def bare_desktop(home: Path) -> AsyncIterator[Desktop]:
    """Give a test a desktop of its own without a window manager."""
    from tests.desktops import running_desktop

    async with running_desktop(home, window_manager=False) as running:
        yield running
