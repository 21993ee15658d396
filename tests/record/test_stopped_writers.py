"""Writers of a run that are killed, or that have no more room on a real disk: each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.waiting import GUARD_S

from cellwright.record import Journal, read_run, verify
from cellwright.record.records import Note

pytestmark = pytest.mark.slow

CHILD = """
import sys
from pathlib import Path
from cellwright.errors import DiskFull
from cellwright.record import Journal, RunInfo
from cellwright.record.records import Note
info = RunInfo(run_id="r", cellwright="0", driver="library", session_id="s", spec={})
folder = Path(sys.argv[1])
"""


def test_file_size_limit_leaves_no_half_record_and_the_journal_goes_on(tmp_path: Path) -> None:
    """The limit cuts the write in its middle, as a full disk does."""
    code = """
    import resource
    journal = Journal.create(folder, info)
    journal.append(Note(text="first"))
    size = (folder / "journal.jsonl").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 500, size + 500))
    for attempt in (lambda: journal.append(Note(text="x" * 1000)), lambda: journal.blob(b"y" * 2000)):
        try:
            attempt()
        except DiskFull as error:
            print(error)
    assert (folder / "journal.jsonl").stat().st_size == size
    journal.append(Note(text="second"))
    journal.leave()
    """
    done = _child(code, tmp_path / "run")
    lines = done.stdout.splitlines()
    assert [line.partition(" could not be written: File too large.")[1] != "" for line in lines] == [True, True]
    assert lines[0].startswith("journal.jsonl ")
    assert len(lines[1].split()[0]) == 64
    assert [record.text for record in read_run(tmp_path / "run").records if isinstance(record, Note)] == [
        "first",
        "second",
    ]
    assert list((tmp_path / "run" / "blobs").iterdir()) == []
    assert verify(tmp_path / "run").problems == ()


def test_full_disk_leaves_every_record_before_it_readable(tmp_path: Path) -> None:
    """The run lies on a tmpfs of 1 MB; at the end there is room again, and the run can be closed."""
    code = """
    from cellwright.record import read_run, verify
    journal, count = Journal.create(folder / "run", info), 0
    (folder / "ballast").write_bytes(b"b" * 200_000)
    try:
        while True:
            journal.append(Note(text="x" * 5000))
            count += 1
    except DiskFull as error:
        print(type(error).__name__, count > 100)
    run = read_run(folder / "run")
    print(len(run.records) == count, run.problems, run.status)
    (folder / "ballast").unlink()
    journal.close("failed", reason="The disk was full.")
    print(verify(folder / "run").status, read_run(folder / "run").status)
    """
    tmp_path.joinpath("disk").mkdir()
    tmpfs = ("bwrap", "--dev-bind", "/", "/", "--size", "1048576", "--tmpfs", str(tmp_path / "disk"))
    done = _child(code, tmp_path / "disk", *tmpfs)
    assert done.stdout.splitlines() == ["DiskFull True", "True () running", "whole failed"]


def test_killed_writer_leaves_every_acknowledged_record(tmp_path: Path) -> None:
    """SIGKILL in the middle of writing; what was acknowledged before it is there, and the run can go on."""
    code = """
    journal = Journal.create(folder, info)
    count = 0
    while True:
        count = journal.append(Note(text=f"{count + 1} " + "x" * 3000)).number
        print(count, flush=True)
    """
    command = [sys.executable, "-W", "error", "-c", CHILD + textwrap.dedent(code), str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        try:
            while (acknowledged := int(writer.stdout.readline())) < 50:
                pass
            assert read_run(tmp_path / "run").status == "running"
            writer.send_signal(signal.SIGKILL)
            acknowledged = int([acknowledged, *writer.stdout.read().split()][-1])
            assert writer.wait(GUARD_S) == -signal.SIGKILL
        finally:
            writer.kill()
    run = read_run(tmp_path / "run")
    numbers = [int(record.text.split()[0]) for record in run.records if isinstance(record, Note)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) in {acknowledged, acknowledged + 1}
    assert run.status == "open"
    with Journal.reopen(tmp_path / "run"):
        pass
    assert verify(tmp_path / "run").status == "whole"


def _child(code: str, folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-W", "error", "-c", CHILD + textwrap.dedent(code), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done
