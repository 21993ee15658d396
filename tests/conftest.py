"""Nothing leaves the machine by accident, and nothing of the machine reaches a test: no key, no proxy, no run of the user.

Decided here too: which tests run two at once, and which have the machine to themselves (`--phase`).
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from itertools import count
from pathlib import Path

import pytest

pytest_plugins = ["tests.engines"]

CLEARED = ("PROXY", "OPENAI", "CELLWRIGHT_URL", "CELLWRIGHT_TOKEN", "CELLWRIGHT_TRACE", "CELLWRIGHT_STATE", "XDG_STATE")

ALONE = (
    "e2e/test_long_work.py",
    "e2e/test_time_line.py",
    "kernels/test_misbehaving_kernels.py",
    "sandbox/test_bench_sessions.py",
    "sandbox/test_hung_ladder.py",
    "sandbox/test_hung_pages.py",
    "sandbox/test_ladder.py",
    "sandbox/test_memory_ladder.py",
    "sandbox/test_screen_helper.py",
    "soak/test_soak.py",
    "unit/kernel/test_display_life.py",
)
"""They say within which time something is answered, or use up what a machine has: another test beside them would be in the figures."""

_numbers = count()

# a script that starts the tests with `&` has them ignore interrupts, and whatever a test starts would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Without `--phase` all tests run, one after the other."""
    said = "only the tests that may run two at once, or only those that have the machine to themselves"
    parser.addoption("--phase", choices=("together", "alone"), help=said)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other phase."""
    if (phase := config.getoption("--phase")) is None:
        return
    tests = Path(__file__).parent
    alone = {(tests / name).resolve(strict=True) for name in ALONE}
    others = [item for item in items if (item.path in alone) != (phase == "alone")]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


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
    return state
