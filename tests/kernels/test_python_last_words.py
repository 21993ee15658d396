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
from tests.kernels.playing_cells import kernels_in, play
from tests.python_kernel import PythonKernel, Told, python_kernel
from tests.waiting import GUARD_S

from cellwright_kernel.python.last_pipes import NAME, LastPipes, PipesGiver
from cellwright_kernel.python.last_words import KINDS, SLOT_BYTES, LastWords, LastWordsBox, read_begun, read_last_words


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


def test_what_had_only_been_read_from_a_pipe_is_not_lost(tmp_path):
    box = LastWordsBox(tmp_path / "box")
    reader, writer = os.pipe()
    os.write(writer, b"long ago")
    assert box.land(reader, "stdout", "a") == b"long ago"
    box.taken()
    assert read_last_words(tmp_path / "box", 0) == []
    os.write(writer, b"\xc3\xa9")
    assert box.land(reader, "stderr", "b") == b"\xc3\xa9"
    assert read_last_words(tmp_path / "box", 99) == [LastWords(0, "stderr", "b", "é")]
    box.taken()
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        box.land(reader, "stdout", "c")
    assert read_last_words(tmp_path / "box", 0) == []
    os.close(reader)
    os.close(writer)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("os.write(2, b'hello\\n'); os.kill(os.getpid(), 9)", {"stderr": "hello\n"}),
        (
            "print('1'); os.write(1, b'2\\n'); os.write(2, b'3\\n'); os.kill(os.getpid(), 9)",
            {"stdout": "1\n2\n", "stderr": "3\n"},
        ),
        ("os.system('seq 999; kill -9 $PPID')", {"stdout": "".join(f"{number}\n" for number in range(1, 1000))}),
        ("os.write(1, b'\\xff'); os.kill(os.getpid(), 9)", {"stdout": "\ufffd"}),
    ],
)
async def test_what_was_written_to_descriptors_before_the_kernel_died_is_not_lost(tmp_path, code, says):
    async with kernels_in(tmp_path) as kernels:
        await play(kernels, "python", "import os; print('another cell')", 1)
        said, closed = await play(kernels, "python", code, 2)
        assert closed.status == "kernel_died"
        texts = {kind: "".join(one.get(kind, "") for one in said) for kind in says}
        assert (texts, [one for one in said if not {*one} & {*says, "notice"}]) == (says, [])
        assert (await play(kernels, "python", "1 + 1", 3))[0] == [{"result": "2"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "begins"),
    [
        ("faulthandler.enable(); ctypes.string_at(0)", "Fatal Python error: Segmentation fault\n"),
        ("faulthandler.dump_traceback_later(.1, exit=True); time.sleep(60)", "Timeout (0:00:00.100000)!\n"),
    ],
)
async def test_a_crashs_own_report_is_not_lost(tmp_path, code, begins):
    async with kernels_in(tmp_path) as kernels:
        said, closed = await play(kernels, "python", f"import ctypes, faulthandler, time; {code}", 1)
        assert closed.status == "kernel_died"
        report = "".join(one.get("stderr", "") for one in said)
        assert report.startswith(begins)
        assert '  File "<cell 1>", line 1 in <module>\n' in report


async def test_of_the_pipes_that_were_handed_over_the_last_ones_are_read(tmp_path):
    last = LastPipes(tmp_path)
    giver = PipesGiver(tmp_path / NAME)
    for msg_id in ("a", "b"):
        pairs = [os.pipe(), os.pipe()]
        giver.hand_over(msg_id, [reader for reader, _ in pairs])
        os.write(pairs[1][1], f"of {msg_id}".encode())
        for pair in pairs:
            os.close(pair[0])
            os.close(pair[1])
    assert [(words.kind, words.msg_id, words.text) for words in last.left()] == [("stderr", "b", "of b")]
    giver.close()
    last.close()
    last.close()
    assert last.left() == []


async def test_what_is_handed_over_in_a_pipes_place_is_neither_read_nor_waited_for(tmp_path):
    before = open_descriptors()
    last = LastPipes(tmp_path)
    giver = PipesGiver(tmp_path / NAME)
    reader, writer = os.pipe()
    with (tmp_path / "file").open("w+b") as file:
        file.write(b"text")
        file.flush()
        for given in ([file.fileno(), reader], [], [reader] * 50, [writer]):
            giver.hand_over("x" * 500, given)
            assert last.left() == []
    last.close()
    os.close(reader)
    os.close(writer)
    giver.close()
    assert open_descriptors() == before


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_kernel_without_a_host_hands_nothing_over(tmp_path):
    PipesGiver(tmp_path / NAME).hand_over("a", [0, 1])
