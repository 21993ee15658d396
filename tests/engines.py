"""Which engines of OCI images work on this machine, and have the sandbox image: what they start is tested only there.

Flows in: every test that says which engine it needs. Flows out: those whose engine is here, and at the end one line for each
that is not. Decided here: the others are left out and counted as such, so that a skipped test stays what somebody looks into.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from functools import cache

import pytest

from cellwright.sandbox.base import Spec

ANSWER_S = 30
_LEFT_OUT = pytest.StashKey[Counter[str]]()


def needs(engine: str) -> pytest.MarkDecorator:
    """Return the mark of what needs an engine with the image."""
    return pytest.mark.engine(engine)


EACH = [pytest.param(engine, marks=needs(engine)) for engine in ("podman", "docker")]
"""Rows for what each of them has to keep."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engine(name): needs this engine of OCI images, and the sandbox image in it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item: engine for item in items if (engine := _missing(item)) is not None}
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]
    config.stash[_LEFT_OUT] = Counter(left_out.values())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for engine, count in sorted(config.stash.get(_LEFT_OUT, Counter[str]()).items()):
        terminalreporter.write_line(f"{count} tests left out: {engine} does not answer here, or has no sandbox image")


def _missing(item: pytest.Item) -> str | None:
    named = [mark.args[0] for mark in item.iter_markers("engine")]
    return next((engine for engine in named if not has_image(engine)), None)


@cache
def has_image(engine: str) -> bool:
    """Return whether an engine answers and has the image; takes 0.1 s, and nothing where there is no engine."""
    if shutil.which(engine) is None:
        return False
    asked = subprocess.run(
        [engine, "image", "inspect", Spec().image], capture_output=True, check=False, timeout=ANSWER_S
    )
    return asked.returncode == 0


def name_of(engine: str, pid: int) -> str:
    """Return the name of the sandbox whose first process this is; others may start and end some at the same time."""
    asked = [engine, "inspect", "--format", "{{.State.Pid}} {{.Name}}", *names(engine)]
    told = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=ANSWER_S).stdout
    by_pid = dict(line.split() for line in told.splitlines())
    return str(by_pid[str(pid)]).removeprefix("/")


def names(engine: str) -> set[str]:
    """Return the names of all sandboxes of ours that an engine keeps something of."""
    listed = subprocess.run(
        [engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True, timeout=ANSWER_S
    )
    return {name for name in listed.stdout.split() if name.startswith("cellwright-")}
