"""Which files enter a sandbox when a run is done again, and what is refused before there is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cellwright.cli import main
from cellwright.errors import JournalCorrupt, UsageError
from cellwright.record import Run, list_runs, read_run
from cellwright.record.records import CopiedFile
from cellwright.replay.files_again import in_place_of, must_fit
from cellwright.replay.plan import plan_for
from cellwright.replay.replay import Again, replay
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "then" / "data").mkdir(parents=True)
    (tmp_path / "now" / "data").mkdir(parents=True)
    for when in ("then", "now"):
        (tmp_path / when / "rows.csv").write_text(when)
        (tmp_path / when / "data" / "more.csv").write_text(f"more of {when}")
    return tmp_path


@pytest.fixture
async def run(folder: Path) -> Run:
    spec = Spec(files=(folder / "then" / "rows.csv", folder / "then" / "data"))
    async with Session.open(spec, backend=FakeBackend()) as session:
        await session.execute("x = 1")
        session.conclude("failed")
    return read_run(session.run_dir)


def test_a_file_takes_the_place_of_the_one_of_its_name_and_a_folder_of_those_below(folder: Path) -> None:
    given = {"rows.csv": folder / "now" / "rows.csv", "data": folder / "now" / "data"}
    assert in_place_of("rows.csv", given) == folder / "now" / "rows.csv"
    assert in_place_of("data/more.csv", given) == folder / "now" / "data" / "more.csv"
    assert in_place_of("other/rows.csv", given) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"row.csv": "now/rows.csv"}, "--file row.csv: the run was given no file or folder of this name."),
        ({"rows.csv": "nothing"}, "is to take the place of rows.csv, and is no file."),
        ({"rows.csv": "now"}, "is to take the place of rows.csv, and is no file."),
        ({"data": "then"}, "is to take the place of data/more.csv, and is no file."),
    ],
)
async def test_what_cannot_take_a_place_is_refused_before_there_is_a_sandbox(
    run: Run, folder: Path, given: dict[str, str], says: str
) -> None:
    paths = {name: folder / path for name, path in given.items()}
    with pytest.raises(UsageError) as refused:
        await replay(run, Again(files=paths), backend=FakeBackend())
    assert says in str(refused.value)
    with pytest.raises(UsageError) as refused:
        async with resume(run.folder, plan_for(run, "safe"), Given(files=paths), backend=FakeBackend()):
            pass
    assert says in str(refused.value)
    assert [one.run_id for one in list_runs()] == [run.info.run_id]


async def test_the_files_of_now_enter_in_a_replay(run: Run, folder: Path) -> None:
    backend = FakeBackend()
    await replay(run, Again(files={"data": folder / "now" / "data"}), backend=backend)
    assert backend.made[-1].files == {"rows.csv": b"then", "data/more.csv": b"more of now"}


async def test_the_files_of_now_enter_where_a_run_is_resumed(run: Run, folder: Path) -> None:
    given = Given(files={"data": folder / "now" / "data"})
    backend = FakeBackend()
    async with resume(run.folder, plan_for(run, "safe"), given, backend=backend):
        assert backend.made[-1].files == {"rows.csv": b"then", "data/more.csv": b"more of now"}


def test_what_the_run_does_not_keep_is_asked_for(folder: Path) -> None:
    large = CopiedFile(path="rows.csv", size_bytes=4, sha256="0" * 64)
    with pytest.raises(UsageError, match=r"it was too large\. Nothing ran\. Give it again: --file rows\.csv\."):
        must_fit([large], {})
    must_fit([large], {"rows.csv": folder / "now" / "rows.csv"})


@pytest.mark.parametrize("path", ["/etc/passwd", "data/../../rows.csv", "", "a\0b"])
def test_a_file_of_a_strangers_run_is_one_of_a_home(folder: Path, path: str) -> None:
    with pytest.raises(JournalCorrupt, match="which is no file of a home"):
        must_fit([CopiedFile(path=path, size_bytes=4, sha256="0" * 64, kept=True)], {"data": folder / "now" / "data"})


def test_a_file_that_is_not_there_is_told_by_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cellwright", "replay", run.info.run_id, "--file", "nothing.csv"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert "--file nothing.csv: there is no such file or folder." in capsys.readouterr().err


def test_no_fork_is_made_that_its_files_would_end(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "row.csv").write_text("1")
    words = ["fork", run.info.run_id, "--at", "1", "--exec", "1", "--file", str(folder / "row.csv")]
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert "It has: rows.csv, data/more.csv." in capsys.readouterr().err
    assert [one.run_id for one in list_runs()] == [run.info.run_id]
