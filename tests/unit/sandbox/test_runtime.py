"""Where the inside's parts lie, and how they are named."""

import os
import stat
from pathlib import Path

import pytest

from cellwright.errors import EnvironmentMissing
from cellwright.sandbox import runtime


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    return tmp_path


def test_data_folder_is_the_chosen_one(data):
    assert runtime.data_folder() == data


def test_data_folder_of_root_is_no_ones_home(monkeypatch):
    monkeypatch.delenv("CELLWRIGHT_DATA")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert runtime.data_folder() == Path("/var/lib/cellwright")


def test_data_folder_of_a_user_is_in_the_users_data(monkeypatch, tmp_path):
    monkeypatch.delenv("CELLWRIGHT_DATA")
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert runtime.data_folder() == tmp_path / "share/cellwright"


def test_missing_runtime_is_named_with_the_command_that_builds_it():
    with pytest.raises(EnvironmentMissing, match=r"Run `bash scripts/setup\.sh`\.") as caught:
        runtime.runtime_folder()
    assert str(runtime.runtime_place()) in str(caught.value)


def test_built_runtime_is_found():
    runtime.runtime_place().mkdir(parents=True)
    assert runtime.runtime_folder() == runtime.runtime_place()


def test_kernel_folder_that_cannot_be_written_is_a_missing_environment(data):
    (data / "kernel").write_text("in the way")
    with pytest.raises(EnvironmentMissing, match="set CELLWRIGHT_DATA to another folder"):
        runtime.kernel_folder()


def test_publishing_second_keeps_the_first(tmp_path):
    for name in ("place", "late"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(name)
    runtime.publish(tmp_path / "late", tmp_path / "place")
    assert (tmp_path / "place/who").read_text() == "place"


def test_published_folder_is_open_to_everyone_to_read(tmp_path):
    (tmp_path / "building").mkdir(mode=0o700)
    runtime.publish(tmp_path / "building", tmp_path / "place")
    assert stat.S_IMODE((tmp_path / "place").stat().st_mode) == 0o755


def test_chosen_chromium_comes_first(monkeypatch, tmp_path):
    program = tmp_path / "chrome"
    program.touch()
    monkeypatch.setenv("CELLWRIGHT_CHROMIUM", str(program))
    assert runtime.chromium_path() == program


def test_chosen_chromium_that_is_not_there_is_an_error_and_not_another_browser(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_CHROMIUM", str(tmp_path / "gone"))
    with pytest.raises(EnvironmentMissing, match="which is not a file"):
        runtime.chromium_path()


def test_newest_chromium_of_playwright_comes_last(monkeypatch, tmp_path):
    monkeypatch.delenv("CELLWRIGHT_CHROMIUM", raising=False)
    monkeypatch.setattr(runtime, "_DEBIAN_CHROMIUM", tmp_path / "none")
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match="There is no Chromium on this machine"):
        runtime.chromium_path()
    for moment, name in ((2000, "chromium-1200/chrome-linux64/chrome"), (1000, "chromium-1100/chrome-linux/chrome")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (moment, moment))
    assert runtime.chromium_path() == tmp_path / "chromium-1200/chrome-linux64/chrome"
