"""What a dying Python kernel said: sent, or kept where its host finds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty

import pytest
from tests.python_kernel import PythonKernel, Told, python_kernel
from tests.waiting import GUARD_S

from cellwright_kernel.python.last_words import KINDS, SLOT_BYTES, LastWordsBox, read_begun, read_last_words


def told_by_dying(kernel: PythonKernel, code: str) -> str:
    """Run a cell that ends the kernel; give back all text of it, sent or not."""
    told = Told()
    msg_id = kernel.send(code)
    kernel.process.wait(GUARD_S)
    while True:
        try:
            kernel._take(kernel.told_next(0.1), msg_id, told)
        except Empty:
            break
    lost = read_last_words(Path(f"{kernel.connection}.last"), kernel.highest_seq)
    assert all(words.msg_id == msg_id for words in lost)
    return "".join(str(value) for _, value in told.outputs) + "".join(words.text for words in lost)


def test_a_disk_that_becomes_full_takes_no_page_from_the_box(tmp_path):
    """A page that is first made when it is written cannot be made then: that is SIGBUS."""
    path = tmp_path / "box"
    LastWordsBox(path)
    assert path.stat().st_blocks * 512 >= path.stat().st_size


def test_without_room_for_the_box_there_is_none_and_the_kernel_works(tmp_path):
    code = (
        "import resource, pathlib; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from cellwright_kernel.python.last_words import LastWordsBox\n"
        f"box = LastWordsBox(pathlib.Path({str(tmp_path / 'box')!r})); box.begin('log', 'id'); box.add(b'x'); print(box.text())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=GUARD_S)
    assert said.stdout == "x\n"
    assert not (tmp_path / "box").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import os; print('before'); log('and'); print('after'); os._exit(3)", 3),
        ("import ctypes; print('before'); log('and'); print('after'); ctypes.string_at(0)", -signal.SIGSEGV),
        ("import os; print('before'); log('and'); print('after'); os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_what_was_said_before_the_kernel_died_is_not_lost(tmp_path, code, status):
    with python_kernel(tmp_path) as kernel:
        assert told_by_dying(kernel, code) == "before\nandafter\n"
        assert kernel.process.returncode == status


@pytest.mark.slow
def test_what_was_printed_before_c_code_held_the_kernel_is_not_lost(tmp_path):
    """`sum` over a range lets no other thread run, so nothing that is sent by a timer leaves."""
    with python_kernel(tmp_path) as kernel:
        msg_id = kernel.send("log('on'); print('before'); sum(range(10**12))")
        told = Told()
        while ("log", "on") not in told.outputs:
            kernel._take(kernel.told_next(), msg_id, told)
        if ("stdout", "before\n") not in told.outputs:
            box = Path(f"{kernel.connection}.last")
            ends_at = time.monotonic() + GUARD_S
            while (lost := [words.text for words in read_last_words(box, kernel.highest_seq)]) in ([], ["before"]):
                assert time.monotonic() < ends_at  # print() writes the newline apart
            assert lost == ["before\n"]
        os.kill(kernel.process.pid, signal.SIGKILL)


def test_the_box_keeps_the_last_runs_in_order(tmp_path):
    path = tmp_path / "box"
    box = LastWordsBox(path)
    for number in range(20):
        box.begin("stdout", f"m{number}")
        box.add(f"text {number}".encode())
    words = read_last_words(path, 0)
    assert [word.seq for word in words] == list(range(13, 21))
    assert words[-1].text == "text 19"
    assert read_last_words(path, 19) == words[-1:]


def test_a_full_slot_is_read_whole(tmp_path):
    box = LastWordsBox(tmp_path / "box")
    box.begin("stderr", "m")
    box.add(b"x" * SLOT_BYTES)
    assert [len(words.text) for words in read_last_words(tmp_path / "box", 0)] == [SLOT_BYTES]


@pytest.mark.parametrize("data", [b"", b"\xff" * 1000, b"\xff" * 600_000, os.urandom(300_000)])
def test_a_box_that_makes_no_sense_is_taken_for_empty_or_for_text(tmp_path, data):
    path = tmp_path / "box"
    path.write_bytes(data)
    assert all(words.kind in KINDS for words in read_last_words(path, 0))
    assert read_last_words(tmp_path / "none", 0) == []


def test_what_stands_in_the_boxs_place_is_neither_waited_for_nor_followed(tmp_path):
    box = LastWordsBox(tmp_path / "box")
    box.begin("stdout", "m")
    box.add(b"text")
    (tmp_path / "link").symlink_to(tmp_path / "box")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert len(read_last_words(tmp_path / "box", 0)) == 1
    assert [read_last_words(tmp_path / name, 0) for name in ("link", "folder", "pipe")] == [[], [], []]


def test_a_cell_that_had_begun_is_known(tmp_path):
    box = LastWordsBox(tmp_path / "box")
    assert read_begun(tmp_path / "box") == ""
    box.begun("a-cell")
    box.begun("another")
    assert read_begun(tmp_path / "box") == "another"
    assert read_last_words(tmp_path / "box", 0) == []
    assert read_begun(tmp_path / "no box") == ""
