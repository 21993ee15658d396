"""Memory groups, in trees of files that look like the Linux kernel's: version 2 can't be had on every machine that tests.

What they do to real processes, `tests/sandbox` shows.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.sandbox.memory import MemoryGroup, NoGroup, memory_group

MIB = 1024**2
Tree = Callable[..., Path]


@pytest.fixture
def v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Make a version 2 tree in which we are in `user/ours`; return the folder that stands for /proc/self."""
    mount = tmp_path / "groups"

    def make(*, controllers: str = "cpu memory pids", given: str = "memory", limit: str = "max") -> Path:
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
        if path.name.startswith("cellwright-"):
            for name in ("cgroup.procs", "memory.max", "memory.swap.max", "memory.events", "memory.peak"):
                (path / name).touch()

    def rmdir(path: Path) -> None:
        for file in path.iterdir():
            file.unlink()
        remove(path)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)


def write_only_with_processes(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that has processes gives no controllers away."""
    write = Path.write_text

    def write_text(path: Path, text: str, *args: object, **options: object) -> int:
        if path == control:
            raise OSError(16, "Device or resource busy")
        return write(path, text, *args, **options)

    monkeypatch.setattr(Path, "write_text", write_text)


def left(groups: Path) -> list[str]:
    return sorted(path.name for path in groups.rglob("cellwright-*"))


async def test_second_version_is_used_beside_our_own_group_and_removed(v2: Tree, tmp_path: Path) -> None:
    group = memory_group(512 * MIB, proc=v2())
    assert isinstance(group, MemoryGroup)
    assert (group.version, group.folder.parent) == ("v2", tmp_path / "groups/user")
    assert (group.folder / "memory.max").read_text() == f"{512 * MIB}"
    assert (group.folder / "memory.swap.max").read_text() == "0"
    assert (group.events, group.peak) == (group.folder / "memory.events", group.folder / "memory.peak")
    assert group.entered_by(["bwrap", "x"])[-3:] == [str(group.descriptors[0]), "bwrap", "x"]
    await group.remove()
    await group.remove()
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
    v2: Tree, tmp_path: Path, tree: dict[str, str], reason: str
) -> None:
    group = memory_group(512 * MIB, proc=v2(**tree))
    assert group == NoGroup(f"{reason}; no cgroup v1 with the memory controller is mounted")
    assert left(tmp_path) == []


def test_a_group_that_no_process_may_move_to_is_none(v2: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Linux kernel says so only at the move."""
    make = Path.mkdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        make(path, *args, **options)
        if path.name.startswith("cellwright-"):
            (path / "cgroup.procs").unlink()
            (path / "cgroup.procs").symlink_to("/dev/full")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    group = memory_group(512 * MIB, proc=v2())
    assert isinstance(group, NoGroup)
    assert group.reason.startswith(f"cgroup v2: no process of ours may move to a group in {tmp_path}/groups/user; ")
    assert left(tmp_path) == []


def test_memory_controller_is_given_on_where_it_is_ours_to_give(v2: Tree, tmp_path: Path) -> None:
    group = memory_group(512 * MIB, proc=v2(given="cpu"))
    assert isinstance(group, MemoryGroup)
    assert (tmp_path / "groups/user/cgroup.subtree_control").read_text() == "+memory"
    group.discard()


def test_a_group_that_cannot_be_made_is_told_of_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "memory/ours").mkdir(parents=True)
    mountinfo = f"31 1 0:27 / {tmp_path}/memory rw - cgroup cgroup rw,memory"
    group = memory_group(512 * MIB, proc=proc(tmp_path, mountinfo, "4:memory:/ours"))
    assert isinstance(group, NoGroup)  # a plain folder has no `cgroup.procs`
    assert group.reason == (
        "no cgroup v2 with the memory controller is mounted; "
        f"cgroup v1: {tmp_path}/memory/ours is not ours to use (No such file or directory)"
    )


def test_a_group_outside_of_what_is_mounted_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    mountinfo = f"31 1 0:27 /other {tmp_path}/memory rw - cgroup cgroup rw,memory"
    group = memory_group(512 * MIB, proc=proc(tmp_path, mountinfo, "4:memory:/ours"))
    assert isinstance(group, NoGroup)
    assert group.reason.endswith("; cgroup v1: our own group lies outside of what is mounted")


def test_what_a_killed_owner_left_is_removed_and_what_is_held_is_not(v2: Tree, tmp_path: Path) -> None:
    place = v2()
    for name in ("cellwright-left", "cellwright-held"):
        (tmp_path / "groups/user" / name).mkdir()
    held = os.open(tmp_path / "groups/user/cellwright-held", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        group = memory_group(512 * MIB, proc=place)
        assert left(tmp_path) == sorted(["cellwright-held", Path(str(group.folder)).name])
        group.discard()
    finally:
        os.close(held)


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_group_that_another_took_for_left_behind_while_it_was_made_is_made_again(
    v2: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_locked: bool
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
    group = memory_group(512 * MIB, proc=place)
    assert isinstance(group, MemoryGroup)
    assert (len(removed), left(tmp_path)) == (1, [group.folder.name])
    await group.remove()
    assert left(tmp_path) == []
