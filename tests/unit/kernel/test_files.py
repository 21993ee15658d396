import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cellwright_kernel import files
from cellwright_kernel.files import BadPath, Files, TooLarge, read_chunks


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("outside")
    (tmp_path / "home/a.txt").write_text("a")
    (tmp_path / "home/sub/b.txt").write_text("bb")
    return tmp_path / "home"


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def read(home: Path, path: str) -> bytes:
    return b"".join(read_chunks(*Files(home).open(path)))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def left_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_regular_files_are_listed_with_size_and_time(home):
    os.utime(home / "a.txt", (0, 0))
    (home / "link").symlink_to("a.txt")
    (home / "linked").symlink_to("/etc")
    os.mkfifo(home / "pipe")
    found = Files(home).listing("")
    assert [(info.path, info.size_bytes) for info in found] == [("a.txt", 1), ("sub/b.txt", 2)]
    assert found[0].modified_at == "1970-01-01T00:00:00.000Z"


def test_a_folder_is_listed_with_paths_from_home(home):
    assert [info.path for info in Files(home).listing("sub/")] == ["sub/b.txt"]


def test_a_file_is_read(home):
    assert read(home, "sub/b.txt") == b"bb"


async def test_a_file_is_written_with_its_folders_and_replaced(home):
    assert await Files(home).write("new/deep/c.bin", chunks(b"one", b"two")) == 6
    await Files(home).write("new/deep/c.bin", chunks(b"three"))
    assert (home / "new/deep/c.bin").read_bytes() == b"three"
    assert names(home / "new/deep") == ["c.bin"]


def test_a_file_is_deleted(home):
    Files(home).delete("a.txt")
    assert not (home / "a.txt").exists()


def test_deleting_a_link_leaves_what_it_names(home):
    (home / "link").symlink_to("a.txt")
    Files(home).delete("link")
    assert (home / "a.txt").exists()


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "sub/../../secret", "a\0b", "sub", "", ".", "x" * 5000])
def test_a_path_that_leaves_home_or_names_no_file_is_refused(home, path):
    with pytest.raises(BadPath):
        Files(home).open(path)


@pytest.mark.parametrize("path", ["link", "folder/passwd", "folder/deep/x", "a.txt/x", "pipe"])
async def test_nothing_is_read_or_written_through_a_link_or_a_pipe(home, path):
    (home / "link").symlink_to("../secret")
    (home / "folder").symlink_to("/etc")
    os.mkfifo(home / "pipe")
    before = left_open()
    with pytest.raises(BadPath):
        Files(home).open(path)
    with pytest.raises(BadPath):
        await Files(home).write(path, chunks(b"overwritten"))
    assert (home.parent / "secret").read_text() == "outside"
    assert left_open() == before


def test_listing_through_a_link_is_refused(home):
    (home / "folder").symlink_to("/etc")
    with pytest.raises(BadPath):
        Files(home).listing("folder")


@pytest.mark.parametrize("act", [Files.open, Files.delete, Files.listing])
def test_what_is_not_there_is_said_so(home, act):
    with pytest.raises(FileNotFoundError):
        act(Files(home), "missing/file")


def test_deleting_a_folder_is_refused(home):
    with pytest.raises(BadPath):
        Files(home).delete("sub")


async def test_a_path_that_ends_with_a_slash_makes_no_file(home):
    for path in ("d/", "sub/b.txt/", "a.txt//"):
        with pytest.raises(BadPath, match="names a folder, and a file was meant"):
            await Files(home).write(path, chunks(b"x"))
    assert names(home) == ["a.txt", "sub"]


async def test_a_file_too_large_leaves_nothing(home, monkeypatch):
    monkeypatch.setattr(files, "FILE_BYTES", 10)
    with pytest.raises(TooLarge):
        await Files(home).write("big", chunks(b"x" * 8, b"x" * 8))
    (home / "huge").write_bytes(b"x" * 11)
    with pytest.raises(TooLarge):
        Files(home).open("huge")
    assert names(home) == ["a.txt", "huge", "sub"]


async def test_a_write_that_breaks_off_leaves_the_old_file(home):
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await Files(home).write("a.txt", broken())
    assert (home / "a.txt").read_text() == "a"
    assert names(home) == ["a.txt", "sub"]


def test_a_file_that_shrinks_while_it_is_read_ends_early(home):
    handle, size = Files(home).open("sub/b.txt")
    os.truncate(home / "sub/b.txt", 1)
    assert b"".join(read_chunks(handle, size)) == b"b"


def test_a_name_that_is_no_utf8_is_listed(home):
    Path(os.fsdecode(os.fsencode(home) + b"/\xff.txt")).write_text("x")
    assert "\ufffd.txt" in [info.path for info in Files(home).listing("")]


async def test_a_written_file_is_no_program(home):
    await Files(home).write("script.sh", chunks(b"#!/bin/sh"))
    assert stat.S_IMODE((home / "script.sh").stat().st_mode) & 0o111 == 0
