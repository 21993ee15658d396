"""Control groups, in trees of files that look like the Linux kernel's: version 2 can't be had on every machine that tests.

What they do to real processes, `tests/sandbox` shows.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.sandbox.base import Limits
from cellwright.sandbox.control_groups import ControlGroups, Tree, control_groups

MIB = 1024**2
LIMITS = Limits(memory_bytes=512 * MIB, cpus=1.5)
FILES = (
    *("cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "memory.events", "memory.peak"),
    *("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "cpu.max", "cpu.cfs_period_us", "cpu.cfs_quota_us"),
)
Make = Callable[..., Path]


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a version 2 tree in which we are in `user/ours`; return the folder that stands for /proc/self."""
    mount = tmp_path / "groups"

    def make(*, controllers: str = "cpu memory pids", given: str = "memory cpu", limit: str = "max") -> Path:
        (mount / "user/ours").mkdir(parents=True)
        for group in (mount, mount / "user", mount / "user/ours"):
            (group / "cgroup.controllers").write_text(f"{controllers}\n")
        (mount / "user/cgroup.subtree_control").write_text(f"{given}\n")
        (mount / "user/ours/cgroup.subtree_control").write_text("\n")
        (mount / "user/ours/memory.max").write_text(f"{limit}\n")
        write_only_with_processes(mount / "user/ours/cgroup.subtree_control", monkeypatch)
        return proc(tmp_path, f"30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw", "0::/user/ours")

    with_files(monkeypatch)
    return make


def proc(tmp_path: Path, mountinfo: str, cgroup: str) -> Path:
    folder = tmp_path / "self"
    folder.mkdir()
    (folder / "mountinfo").write_text(f"{mountinfo}\n")
    (folder / "cgroup").write_text(f"{cgroup}\n")
    return folder


def with_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new group has files at once, and with them can be removed."""
    make, remove = Path.mkdir, Path.rmdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        make(path, *args, **options)
        if _is_group(path):
            for name in FILES:
                (path / name).touch()

    def rmdir(path: Path) -> None:
        for file in path.iterdir():
            if not file.is_dir():
                file.unlink()
        remove(path)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)


def _is_group(path: Path) -> bool:
    return any(part.startswith("cellwright-") for part in path.parts)


def write_only_with_processes(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that has processes gives no controllers away; another adds what it is told to."""
    write = Path.write_text

    def write_text(path: Path, text: str, *args: object, **options: object) -> int:
        if path == control:
            raise OSError(16, "Device or resource busy")
        if path.name == "cgroup.subtree_control" and text.startswith("+"):
            text = f"{path.read_text().strip()} {text[1:]}\n"
        return write(path, text, *args, **options)

    monkeypatch.setattr(Path, "write_text", write_text)


def left(groups: Path) -> list[str]:
    return sorted(path.name for path in groups.rglob("cellwright-*"))


def tree_of(groups: ControlGroups) -> Tree:
    assert isinstance(groups.memory, Tree)
    return groups.memory


async def test_second_version_is_used_beside_our_own_group_and_removed(v2: Make, tmp_path: Path) -> None:
    groups = control_groups(LIMITS, proc=v2())
    tree = tree_of(groups)
    assert groups.cpu is tree
    assert (tree.version, tree.folder.parent) == ("v2", tmp_path / "groups/user")
    assert sorted(path.name for path in tree.folder.iterdir() if path.is_dir()) == ["browser", "cells", "host"]
    said = {name: (tree.folder / name).read_text() for name in ("memory.max", "memory.swap.max", "cpu.max")}
    assert said == {"memory.max": f"{512 * MIB}", "memory.swap.max": "0", "cpu.max": "150000 100000"}
    assert (tree.folder / "browser/memory.max").read_text() == f"{256 * MIB}"
    assert (tree.folder / "cells/memory.max").read_text() == ""
    assert tree.memory.events == (tree.folder / "memory.events",)
    assert tree.memory.peak == tree.folder / "memory.peak"
    assert tree.browser_memory.events == (tree.folder / "browser/memory.events",)
    assert groups.entered_by(["bwrap", "x"])[-3:] == [str(groups.descriptors[0]), "bwrap", "x"]
    assert groups.parts == {"cells": groups.descriptors[1:2], "browser": groups.descriptors[2:3]}
    await groups.remove()
    await groups.remove()
    assert left(tmp_path) == []


def test_where_there_is_memory_and_no_processor_controller_only_that_is_held(v2: Make) -> None:
    place = v2(given="memory")
    write = Path.write_text

    def write_text(path: Path, text: str, *args: object, **options: object) -> int:
        if text == "+cpu":
            raise OSError(2, "No such file or directory")
        return write(path, text, *args, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "write_text", write_text)
        groups = control_groups(LIMITS, proc=place)
    tree = tree_of(groups)
    assert groups.cpu == "cgroup v2 has no processor controller for us"
    assert (tree.folder / "cpu.max").read_text() == ""
    assert (tree.folder / "cgroup.subtree_control").read_text() == " memory\n"
    groups.discard()


async def test_first_version_has_a_tree_for_each_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_files(monkeypatch)
    for name in ("memory/ours", "cpu/us"):
        (tmp_path / name).mkdir(parents=True)
    mounts = [
        f"3{number} 1 0:2{number} / {tmp_path}/{name} rw - cgroup cgroup rw,{name}"
        for number, name in enumerate(("memory", "cpu"))
    ]
    groups = control_groups(LIMITS, proc=proc(tmp_path, "\n".join(mounts), "4:memory:/ours\n3:cpu:/us"))
    tree, cpu = tree_of(groups), groups.cpu
    assert isinstance(cpu, Tree)
    assert (tree.folder.parent, cpu.folder.parent) == (tmp_path / "memory/ours", tmp_path / "cpu/us")
    assert (tree.folder / "memory.limit_in_bytes").read_text() == f"{512 * MIB}"
    assert (tree.folder / "browser/memory.memsw.limit_in_bytes").read_text() == f"{256 * MIB}"
    assert (cpu.folder / "cpu.cfs_quota_us").read_text() == "150000"
    assert [file.parent.name for file in tree.memory.events] == ["host", "cells", "browser"]
    assert groups.parts == {
        "cells": (groups.descriptors[1], groups.descriptors[4]),
        "browser": (groups.descriptors[2], groups.descriptors[5]),
    }
    await groups.remove()
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"controllers": "hugetlb"}, "cgroup v2 has no memory controller for us"),
        (
            {"limit": "1000000"},
            "cgroup v2: our own group has processes, and a group beside it would not be under its limit",
        ),
    ],
)
def test_reasons_why_the_second_version_is_not_used(
    v2: Make, tmp_path: Path, tree: dict[str, str], reason: str
) -> None:
    groups = control_groups(LIMITS, proc=v2(**tree))
    assert groups == ControlGroups(
        memory=f"{reason}; no cgroup v1 with the memory controller is mounted",
        cpu=f"{reason}; no cgroup v1 with the cpu controller is mounted",
    )
    assert groups.entered_by(["bwrap"]) == ["bwrap"]
    assert (groups.parts, groups.descriptors) == ({}, ())
    assert left(tmp_path) == []


def test_a_group_that_no_process_may_move_to_is_none(v2: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Linux kernel says so only at the move."""
    make = Path.mkdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        make(path, *args, **options)
        if _is_group(path):
            (path / "cgroup.procs").unlink()
            (path / "cgroup.procs").symlink_to("/dev/full")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    groups = control_groups(LIMITS, proc=v2())
    assert str(groups.memory).startswith(
        f"cgroup v2: no process of ours may move to a group in {tmp_path}/groups/user; "
    )
    assert left(tmp_path) == []


def test_memory_controller_is_given_on_where_it_is_ours_to_give(v2: Make, tmp_path: Path) -> None:
    group = control_groups(LIMITS, proc=v2(given="cpu"))
    tree_of(group)
    assert (tmp_path / "groups/user/cgroup.subtree_control").read_text() == "cpu memory\n"
    group.discard()


def test_a_group_that_cannot_be_made_is_told_of_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "memory/ours").mkdir(parents=True)
    mountinfo = f"31 1 0:27 / {tmp_path}/memory rw - cgroup cgroup rw,memory"
    groups = control_groups(LIMITS, proc=proc(tmp_path, mountinfo, "4:memory:/ours"))
    assert groups.memory == (  # a plain folder has no `memory.limit_in_bytes`
        "no cgroup v2 with the memory controller is mounted; "
        f"cgroup v1: {tmp_path}/memory/ours is not ours to use (No such file or directory)"
    )


def test_a_group_outside_of_what_is_mounted_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    mountinfo = f"31 1 0:27 /other {tmp_path}/memory rw - cgroup cgroup rw,memory"
    groups = control_groups(LIMITS, proc=proc(tmp_path, mountinfo, "4:memory:/ours"))
    assert str(groups.memory).endswith("; cgroup v1: our own group lies outside of what is mounted")


def test_what_a_killed_owner_left_is_removed_and_what_is_held_is_not(v2: Make, tmp_path: Path) -> None:
    place = v2()
    for name in ("cellwright-left", "cellwright-held"):
        (tmp_path / "groups/user" / name).mkdir()
    held = os.open(tmp_path / "groups/user/cellwright-held", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        group = control_groups(LIMITS, proc=place)
        assert left(tmp_path) == sorted(["cellwright-held", tree_of(group).folder.name])
        group.discard()
    finally:
        os.close(held)


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_group_that_another_took_for_left_behind_while_it_was_made_is_made_again(
    v2: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_locked: bool
) -> None:
    """The other removes it before it is locked: before it is opened for that, or after."""
    removed: list[Path] = []

    def met(folder: Path | None) -> None:
        if folder is not None and not removed:
            removed.append(folder)
            folder.rmdir()

    real_open, real_lock = os.open, fcntl.flock

    def open_file(path: Path, flags: int, mode: int = 0o777) -> int:
        if not is_locked and flags & os.O_DIRECTORY:
            met(path)
        return real_open(path, flags, mode)

    def lock(descriptor: int, how: int) -> None:
        if is_locked:
            met(Path(f"/proc/self/fd/{descriptor}").readlink())
        real_lock(descriptor, how)

    place = v2()
    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(fcntl, "flock", lock)
    group = control_groups(LIMITS, proc=place)
    assert (len(removed), left(tmp_path)) == (1, [tree_of(group).folder.name])
    await group.remove()
    assert left(tmp_path) == []
