"""The keeper: what was ours is gone when we are killed; as long as we live it touches nothing, and it ends with the last thing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.serving import alive, descendants
from tests.waiting import GUARD_S

from cellwright.sandbox.keeper import kept_folder, kept_group

KILLED = """
import pathlib, sys
from cellwright.sandbox.keeper import kept_folder, kept_group
kept_folder(pathlib.Path(sys.argv[1]))
kept_folder(pathlib.Path(sys.argv[2])).let_go()
kept_group(pathlib.Path(sys.argv[3]))
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_was_ours_is_gone_after_a_kill_and_what_was_let_go_is_not(tmp_path: Path) -> None:
    ours, others, group = (tmp_path / name for name in ("our's\n own", "others", "group"))
    for folder in (ours, others, group):
        folder.mkdir()
    (ours / "door").touch()
    (group / "part").mkdir()
    arguments = [sys.executable, "-c", KILLED, str(ours), str(others), str(group)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        keepers = descendants(owner.pid)
        os.kill(owner.pid, signal.SIGKILL)
    end = time.monotonic() + GUARD_S
    while alive(keepers) and time.monotonic() < end:
        time.sleep(0.01)
    assert (len(keepers), alive(keepers)) == (1, set())
    assert [path.name for path in tmp_path.iterdir()] == ["others"]


def test_one_keeper_lasts_from_the_first_thing_to_the_last(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    for _ in range(2):
        folder, group = kept_folder(tmp_path), kept_group(tmp_path / "none")
        (keeper,) = descendants(os.getpid()) - before
        folder.let_go()
        folder.let_go()
        assert alive({keeper}) == {keeper}
        group.let_go()
        assert descendants(os.getpid()) == before
    assert tmp_path.is_dir()


def test_a_keeper_that_was_killed_costs_nothing_but_its_service(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    folder = kept_folder(tmp_path)
    (keeper,) = descendants(os.getpid()) - before
    os.kill(keeper, signal.SIGKILL)
    another = kept_folder(tmp_path)
    folder.let_go()
    another.let_go()
    assert descendants(os.getpid()) == before
