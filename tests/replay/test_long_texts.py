"""Texts of a stranger's run are as long and as odd as they like: every rule goes through each in a moment, not in hours."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

CPU_S = 30
"""All pieces together take 7 s; what tries a line again from each of its places takes minutes for one."""
PLAIN = """
import json, resource, sys
from datetime import UTC, datetime
from cellwright.replay.may_differ import MayDiffer
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
rules = MayDiffer.read()
for piece in json.loads(sys.argv[2]):
    print(repr(piece), flush=True)
    for line in (piece * (700_000 // len(piece)), "1772366400." + piece * (700_000 // len(piece)) + "x"):
        rules.plain(line, datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC))
"""
PIECES = (
    "x",
    "1",
    "1,",
    "1.",
    "1:",
    "1-",
    "1e",
    " ",
    "f0",
    "0x",
    ":",
    '"',
    "[1:11<1, ",
    "1:11:11.1",
    "--",
    "=",
    "boundary=",
    "pid ",
    "/tmp/",
)


def test_every_rule_goes_through_a_long_line_once() -> None:
    """Where one does not, the last piece that was begun is what took too long."""
    command = [sys.executable, "-c", PLAIN, str(CPU_S), json.dumps(PIECES)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.returncode) == ([repr(piece) for piece in PIECES], 0)
