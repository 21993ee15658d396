"""A process that a shell runs in the background asks nobody: the terminal would stop it, and its sandbox with it."""

from __future__ import annotations

import sys

import pexpect

_IN_BOTH = """
import os
from cellwright.cli.terminal import is_there
behind = os.fork()
if behind == 0:
    os.setpgid(0, 0)
    print("behind:", is_there(), flush=True)
    os._exit(0)
os.waitpid(behind, 0)
print("in front:", is_there(), flush=True)
"""


def test_whoever_runs_in_the_background_of_a_terminal_has_nobody_to_ask() -> None:
    shell = pexpect.spawn(sys.executable, ["-c", _IN_BOTH], encoding="utf-8", timeout=30)
    try:
        assert shell.read().split() == ["behind:", "False", "in", "front:", "True"]
    finally:
        shell.close()
