"""Runs as tests: `pytest --cellwright RUN_FOLDER` replays a run, and fails where it is not the same.

Flows in: folders of runs, named on pytest's command line or in its settings. Flows out: an item for each; where it fails, what
`cellwright replay` prints; and the fixture `cellwright_emulator`, a model server for tests of any agent. Decided here: that a replay is a process of its own, so that no event loop, warning filter or signal
handler of a test suite reaches it; that it passes only with exit status 0, so that a machine which can start no sandbox does
not pass by leaving it out; that importing this costs nothing, and works with any pytest: every one of an environment with Cellwright
loads it; and that a run's folder is a file to pytest, which would execute the `conftest.py` of a folder: it may be a stranger's.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from cellwright.testing.emulated import EmulatedServer

_ENDS_S: Final = 20.0
"""Seconds that a replay has to end its sandbox, once it was interrupted."""
_HAS_DIRECTORIES: Final = (8, 0)
"""The first version of pytest that asks plugins what a folder is."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("cellwright", "runs of Cellwright as tests")
    group.addoption(
        "--cellwright",
        action="append",
        default=[],
        metavar="RUN_FOLDER",
        help="Replay this run as a test: it fails at the first cell that is not as in the record. May be repeated.",
    )
    group.addoption(
        "--cellwright-network",
        choices=("recorded", "live"),
        default="recorded",
        help="`recorded`: the run's own answers, and nothing goes out. `live`: what is sent is sent again.",
    )
    group.addoption(
        "--cellwright-may-differ",
        action="append",
        default=[],
        metavar="FILE",
        help="More rules (TOML) of what texts may say differently. May be repeated.",
    )
    group.addoption(
        "--cellwright-args",
        default="",
        metavar="WORDS",
        help="More options for `cellwright replay`, in one word: '--keep-going --mask 1300,0,140,24'.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have the runs collected beside what is collected anyway."""
    config.addinivalue_line("markers", "cellwright: a run of Cellwright that is replayed")
    runs = _runs(config)
    if runs and pytest.version_tuple[:2] < _HAS_DIRECTORIES:
        raise pytest.UsageError("--cellwright needs pytest 8 or later. Nothing was run.")
    for folder in runs:
        if not (folder / "run.json").is_file():
            raise pytest.UsageError(f"--cellwright {folder} is not a run: it has no run.json. Nothing was run.")
        if str(folder) not in config.args:
            config.args.append(str(folder))


@pytest.fixture
def cellwright_emulator() -> Iterator[Callable[..., EmulatedServer]]:
    """Give a function that starts model servers for a test's agent: `cellwright_emulator(script, faults=["rate_limited"])`.

    Its arguments are those of `cellwright.testing.emulator`; each server ends with the test.
    """
    from cellwright.testing.emulated import emulator  # noqa: PLC0415 - a suite that does not use it pays nothing

    with contextlib.ExitStack() as running:
        yield lambda *given, **named: running.enter_context(emulator(*given, **named))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take a folder that was named as a run for one."""
    runs = _runs(parent.config)
    if not runs or path.resolve() not in runs:
        return None
    is_below = path.is_relative_to(parent.config.rootpath)
    return _RunFolder.from_parent(parent, path=path, nodeid=None if is_below else path.as_posix())


class _RunFolder(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield _Replay.from_parent(self, name="replay")


class _Replay(pytest.Item):
    def __init__(self, **given: object) -> None:
        super().__init__(**given)  # type: ignore[arg-type]
        self.add_marker("cellwright")

    def runtest(self) -> None:
        status, said = _replayed(_command(self.path, self.config))
        self.add_report_section("call", "cellwright replay", said)
        if status != 0:
            raise _NotTheSame(said)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Say what the replay said; where it was in Python says nothing."""
        if isinstance(excinfo.value, _NotTheSame):
            self._report_sections.clear()  # it stands in the failure
            return str(excinfo.value).rstrip("\n")
        return str(super().repr_failure(excinfo, style))  # type: ignore[arg-type]

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"cellwright replay {self.path.name}"


class _NotTheSame(Exception):
    """What a replay said that did not end with status 0."""


def _runs(config: pytest.Config) -> list[Path]:
    here = config.invocation_params.dir
    return [(here / word).resolve() for word in config.getoption("--cellwright")]


def _command(folder: Path, config: pytest.Config) -> list[str]:
    here = config.invocation_params.dir
    rules = [str(here / file) for file in config.getoption("--cellwright-may-differ")]
    return [
        *(sys.executable, "-m", "cellwright", "replay", f"{folder}/"),
        *("--network", config.getoption("--cellwright-network")),
        *(word for rule in rules for word in ("--may-differ", rule)),
        *shlex.split(config.getoption("--cellwright-args")),
    ]


def _replayed(command: list[str]) -> tuple[int, str]:
    """Return the exit status of a replay, and what it printed.

    It has a session of its own: a terminal's Ctrl-C would reach it beside our own interrupt, and two end it at once.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate()
        except BaseException:  # an interrupt, or the limit of some other plugin
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    return process.returncode, said.decode("utf-8", "replace")
