"""The cleaner: what was ours is gone when we are killed; as long as we live it touches nothing, and it ends with the last thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.serving import alive, descendants
from tests.waiting import GUARD_S

from cellwright.sandbox.cleaner import folder_removal, group_removal

KILLED = """
import pathlib, sys
from cellwright.sandbox.cleaner import folder_removal, group_removal
folder_removal(pathlib.Path(sys.argv[1]))
folder_removal(pathlib.Path(sys.argv[2])).call_off()
group_removal(pathlib.Path(sys.argv[3]))
print("ready", flush=True)
sys.stdin.read()
"""
KILLED_WITH_SANDBOXES = """
import os, subprocess, sys
from cellwright.sandbox import cleaner
cleaner._GRACE_S = 0.5
for number, seconds in enumerate(("0", "60", "60")):
    process = subprocess.Popen(["sleep", seconds], start_new_session=True)
    command = ["/bin/sh", "-c", 'echo "$WORDS" >"$0/$1"; kill "$1"', sys.argv[1], str(process.pid)]
    removal = cleaner.sandbox_removal(process.pid, command, {"WORDS": f"it's {number}"})
removal.call_off()
print(process.pid, flush=True)
sys.stdin.read()
"""


def test_what_was_ours_is_gone_after_a_kill_and_what_was_called_off_is_not(tmp_path: Path) -> None:
    ours, others, group = (tmp_path / name for name in ("our's\n own", "others", "group"))
    for folder in (ours, others, group):
        folder.mkdir()
    (ours / "door").touch()
    (group / "part").mkdir()
    arguments = [sys.executable, "-c", KILLED, str(ours), str(others), str(group)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        cleaners = descendants(owner.pid)
        os.kill(owner.pid, signal.SIGKILL)
    end = time.monotonic() + GUARD_S
    while alive(cleaners) and time.monotonic() < end:
        time.sleep(0.01)
    assert (len(cleaners), alive(cleaners)) == (1, set())
    assert [path.name for path in tmp_path.iterdir()] == ["others"]


def test_a_sandbox_is_removed_after_a_kill_whether_it_stops_by_itself_or_not(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", KILLED_WITH_SANDBOXES, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        called_off = int(owner.stdout.readline())
        others = descendants(owner.pid) - {called_off}
        os.kill(owner.pid, signal.SIGKILL)
    end = time.monotonic() + GUARD_S
    while alive(others) and time.monotonic() < end:
        time.sleep(0.01)
    assert (alive(others), alive({called_off})) == (set(), {called_off})
    os.kill(called_off, signal.SIGKILL)
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["it's 0\n", "it's 1\n"]


def test_one_cleaner_lasts_from_the_first_thing_to_the_last(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    for _ in range(2):
        folder, group = folder_removal(tmp_path), group_removal(tmp_path / "none")
        (cleaner,) = descendants(os.getpid()) - before
        folder.call_off()
        folder.call_off()
        assert alive({cleaner}) == {cleaner}
        group.call_off()
        assert descendants(os.getpid()) == before
    assert tmp_path.is_dir()


def test_a_cleaner_that_was_killed_costs_nothing_but_its_service(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    folder = folder_removal(tmp_path)
    (cleaner,) = descendants(os.getpid()) - before
    os.kill(cleaner, signal.SIGKILL)
    another = folder_removal(tmp_path)
    folder.call_off()
    another.call_off()
    assert descendants(os.getpid()) == before
