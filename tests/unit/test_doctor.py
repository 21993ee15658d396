"""The doctor looks at the machine that it runs on; what is missing is taken away by hiding it."""

import shutil
import tempfile
from pathlib import Path

import pytest

from cellwright import doctor


@pytest.fixture
def open_folder():
    """A folder that a dropped uid may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def findings():
    return {finding.name: finding for finding in doctor.examine()}


@pytest.mark.slow
def test_machine_that_was_set_up_lacks_nothing():
    assert [finding for finding in doctor.examine() if not finding.ok] == []


@pytest.mark.slow
def test_missing_programs_are_named_with_one_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = findings()
    for name, program in (("bubblewrap", "bwrap"), ("X server", "Xvnc"), ("window manager", "openbox")):
        assert found[name].detail == f"there is no `{program}` on PATH"
        assert found[name].remedy == "bash scripts/setup.sh"
    assert found["namespaces"].detail == "not tried without bubblewrap"
    assert not found["namespaces"].ok


@pytest.mark.slow
def test_program_that_does_not_work_is_not_found(monkeypatch, tmp_path):
    fake = tmp_path / "Xvnc"
    fake.write_text("#!/bin/sh\necho libGL is missing >&2\nexit 127\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert findings()["X server"].detail == f"{fake} ended with status 127: libGL is missing"


@pytest.mark.slow
def test_refused_namespaces_are_told_in_bubblewraps_words(monkeypatch, open_folder):
    fake = open_folder / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(open_folder), prepend=":")
    found = findings()["namespaces"]
    assert not found.ok
    assert found.detail == "bwrap: setting up uid map: Permission denied"
    assert found.remedy


@pytest.mark.slow
def test_runtime_that_was_not_built_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert findings()["runtime"].detail.endswith("is not built")
    assert findings()["namespaces"].ok


def test_chosen_browser_that_is_not_there_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_CHROMIUM", str(tmp_path / "gone"))
    found = doctor._chromium()
    assert not found.ok
    assert found.detail == f"CELLWRIGHT_CHROMIUM names {tmp_path / 'gone'}, which is not a file"


def test_full_disk_is_missing_room(monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    found = doctor._disk()
    assert not found.ok
    assert found.remedy.startswith("make room below ")


def test_key_is_told_as_set_and_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    told = {finding.name: finding.detail for finding in doctor.in_force()}
    assert told["model key"] == "OPENAI_API_KEY is set"
    assert "secret" not in repr(told)


def test_in_force_tells_the_uid_truthfully(monkeypatch):
    monkeypatch.setattr(doctor.os, "getuid", lambda: 0)
    assert doctor.in_force()[0].detail.endswith("never as root")
    monkeypatch.setattr(doctor.os, "getuid", lambda: 1000)
    assert doctor.in_force()[0].detail.startswith("every sandbox runs as you (uid 1000)")
