"""The filter of system calls that a kernel host takes on, for real: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.sandbox.seccomp import browser_filter
from cellwright_kernel.call_filter import take_on

CODE = """
import ctypes, socket, sys
from cellwright_kernel.call_filter import take_on
take_on(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
print(libc.unshare(0x20000), ctypes.get_errno())
try: socket.socket(40, socket.SOCK_STREAM)
except OSError as error: print(error.errno)
print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('Seccomp:', 'NoNewPrivs:'))])
"""


def test_what_is_refused_is_refused_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "filter").write_bytes(browser_filter())
    ended = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "filter")], capture_output=True, text=True, check=True, timeout=20
    )
    assert ended.stdout.splitlines() == ["-1 1", "97", "['1', '2']"]


def test_without_the_filter_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        take_on(str(tmp_path / "none"))
