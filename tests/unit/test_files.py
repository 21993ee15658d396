"""Files in and out: what cannot be copied is said in words, and takes nothing else with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cellwright import files
from cellwright.errors import CellwrightError, UsageError
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


async def enter(*paths: Path) -> FakeBackend:
    backend = FakeBackend()
    async with Session.open(Spec(files=paths), backend=backend):
        return backend


async def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(folder)
    with pytest.raises(UsageError, match=r"would both be x\.csv"):
        await enter(tmp_path / "a" / "x.csv", tmp_path / "b" / "x.csv")
    assert set((await enter(tmp_path / "a", tmp_path / "b")).made[0].files) == {"a/x.csv", "b/x.csv"}


async def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        await enter(tmp_path / "pipe")


async def test_a_file_that_cannot_be_read_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("x")
    read = Path.open

    def refused(path: Path, *args: Any, **named: Any) -> Any:  # root may read everything
        if path.name == "secret":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **named)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(UsageError, match="secret cannot be read: Permission denied"):
        await enter(tmp_path / "secret")


async def test_a_file_that_grows_while_it_is_read_is_still_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("x" * 100)
    monkeypatch.setattr(files, "_enterable", lambda path: path)  # it was small then
    monkeypatch.setattr(files, "FILE_BYTES", 50)
    with pytest.raises(UsageError, match="is larger than"):
        await enter(tmp_path / "log")


async def test_a_name_that_cannot_be_read_keeps_no_other_file_from_coming_out(tmp_path: Path) -> None:
    backend = FakeBackend()
    async with Session.open(Spec(out=tmp_path / "out"), backend=backend):
        backend.made[0].files = {"../up": b"1", "z": b"2"}
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["z"]


async def test_an_out_folder_that_is_gone_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    backend = FakeBackend()
    with pytest.raises(CellwrightError, match="could not be written to"):
        async with Session.open(Spec(out=tmp_path / "out" / "below"), backend=backend):
            backend.made[0].files = {"z": b"2"}
