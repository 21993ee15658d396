"""What the inside says of memory, where it depends on what the Linux kernel tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellwright_kernel.memory import Memory, data_bytes, shown
from cellwright_kernel.wire import GroupMemory, MemoryLimit

GIB = 1024**3


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "events"
    file.write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 0\noom_group_kill 0\n")
    return file


def memory(events: Path, peak: Path | None = None) -> Memory:
    sandbox = GroupMemory(most_bytes=4 * GIB, events=(str(events),), peak=peak and str(peak))
    return Memory(MemoryLimit(process_bytes=GIB, sandbox_bytes=4 * GIB, sandbox=sandbox))


def test_kills_are_counted_since_they_were_asked_for_last(events: Path) -> None:
    watched = memory(events)
    assert watched.killed() == 0
    events.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert (watched.killed(), watched.killed()) == (2, 0)
    events.unlink()
    assert watched.killed() == 0


def test_limit_and_peak_are_named(events: Path, tmp_path: Path) -> None:
    assert (
        memory(events)
        .how_killed()
        .startswith("It was killed because the sandbox's memory limit of 4 GiB was reached. ")
    )
    (tmp_path / "peak").write_text(f"{4 * GIB - 4096}\n")
    watched = memory(events, tmp_path / "peak")
    assert watched.how_killed().startswith(
        "It was killed because the sandbox's memory limit of 4 GiB was reached (peak 4 GiB). "
    )
    reached = "he sandbox's memory limit of 4 GiB was reached (peak 4 GiB), and "
    assert watched.others_killed(1).startswith(f"T{reached}a process was killed: ")
    assert watched.others_killed(3, between=True).startswith(f"Since the last cell t{reached}3 processes were killed: ")


@pytest.mark.parametrize(
    ("browser_peak", "sandbox_peak", "victims", "named"),
    [
        (2 * GIB, 3 * GIB, "browser", "browser's memory limit of 2 GiB was reached, and a process"),
        (GIB, 4 * GIB, "browser", "sandbox's memory limit of 4 GiB was reached (peak 4 GiB), and a process"),
        (
            2 * GIB,
            4 * GIB,
            "browser",
            "browser's memory limit of 2 GiB was reached, or the sandbox's of 4 GiB, and a process",
        ),
        (2 * GIB, 4 * GIB, "cells", "sandbox's memory limit of 4 GiB was reached (peak 4 GiB), and a process"),
    ],
)
def test_the_limit_that_was_reached_is_the_one_that_is_named(
    tmp_path: Path, browser_peak: int, sandbox_peak: int, victims: str, named: str
) -> None:
    """As version 1 counts, each part for itself; a second time nothing has been killed."""
    peaks = {"browser": browser_peak, "sandbox": sandbox_peak}
    for name, peak in peaks.items():
        (tmp_path / f"{name}-peak").write_text(f"{peak}\n")
    events = {part: tmp_path / part for part in ("cells", "browser")}
    for part, file in events.items():
        file.write_text(f"oom_kill {int(part == victims)}\n")
    browser = GroupMemory(most_bytes=2 * GIB, events=(str(events["browser"]),), peak=str(tmp_path / "browser-peak"))
    sandbox = GroupMemory(
        most_bytes=4 * GIB, events=tuple(map(str, events.values())), peak=str(tmp_path / "sandbox-peak")
    )
    watched = Memory(MemoryLimit(process_bytes=GIB, sandbox_bytes=4 * GIB, sandbox=sandbox, browser=browser))
    assert watched.killed() == 1
    assert watched.others_killed(1).startswith(f"The {named} was killed")
    assert watched.killed() == 0


def test_kills_in_all_parts_are_counted(tmp_path: Path) -> None:
    files = [tmp_path / part for part in ("host", "cells", "browser")]
    for file in files:
        file.write_text("oom_kill 1\n")
    sandbox = GroupMemory(most_bytes=4 * GIB, events=tuple(map(str, files)))
    watched = Memory(MemoryLimit(process_bytes=GIB, sandbox_bytes=4 * GIB, sandbox=sandbox))
    assert watched.killed() == 3
    files[1].write_text("oom_kill 4\n")
    assert watched.killed() == 3


@pytest.mark.parametrize(
    ("error", "value"),
    [
        ("MemoryError", ""),
        ("_ArrayMemoryError", "Unable to allocate 38.1 MiB"),
        ("RangeError", "Array buffer allocation failed"),
        ("RangeError", "Failed to allocate memory"),
    ],
)
def test_a_failure_for_want_of_memory_names_the_limits(events: Path, error: str, value: str) -> None:
    said = memory(events).refused("javascript", error, value, os.getpid())
    assert said is not None
    assert said.startswith(
        "The JavaScript kernel got no more memory: one process may have 1 GiB here; the memory limit of the whole sandbox is 4 GiB."
    )
    assert ", and has had " in str(memory(events).refused("python", error, value, os.getpid()))


@pytest.mark.parametrize(("error", "value"), [("RangeError", "Invalid array length"), ("ValueError", "memory")])
def test_another_failure_is_not_called_one_of_memory(events: Path, error: str, value: str) -> None:
    assert memory(events).refused("python", error, value, os.getpid()) is None


def test_without_a_limit_nothing_is_said() -> None:
    assert Memory(None).killed() == 0
    assert Memory(None).refused("python", "MemoryError", "", os.getpid()) is None


def test_javascript_has_what_node_reserves_on_top() -> None:
    limit = MemoryLimit(process_bytes=GIB, sandbox_bytes=4 * GIB)
    assert (data_bytes("python", limit), data_bytes("javascript", limit)) == (GIB, GIB + 640 * 1024**2)


@pytest.mark.parametrize(
    ("count", "text"), [(4 * GIB, "4 GiB"), (GIB * 3 // 2, "1.5 GiB"), (700 * 1024**2, "700 MiB"), (0, "0 MiB")]
)
def test_bytes_are_shown_as_people_read_them(count: int, text: str) -> None:
    assert shown(count) == text
