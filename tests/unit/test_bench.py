"""The benchmark waits for no program without an end. The programs are real, and say nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from cellwright.bench import service
from cellwright.errors import EnvironmentMissing


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """Says a line and half of one when it is written to, and ignores that it is told to end."""
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "for line in sys.stdin: print('one\\ntw', end='', flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        yield process
        process.kill()


def test_a_line_is_waited_for_as_long_as_was_said(program) -> None:
    printed = service.Printed("It", program)
    program.stdin.write(b"\n")
    assert printed.line(10) == "one"
    started = time.monotonic()
    with pytest.raises(EnvironmentMissing, match=r"It said nothing for 0\.1 s"):
        printed.line(0.1)
    assert time.monotonic() - started < 5


def test_the_end_of_a_program_is_no_line(program) -> None:
    program.kill()
    with pytest.raises(EnvironmentMissing, match="It ended before it had said all"):
        service.Printed("It", program).line(10)


def test_a_program_that_does_not_end_is_killed(program, monkeypatch) -> None:
    monkeypatch.setattr(service, "_END_S", 0.1)
    program.stdin.write(b"\n")
    service.Printed("It", program).line(10)  # it listens to no signal any more
    program.terminate()
    service.ended(program)
    assert program.wait(10) == -9
