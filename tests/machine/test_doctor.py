"""The doctor looks at the machine that it runs on; what is missing is taken away by hiding it."""

import json
import tempfile
from pathlib import Path

import pytest
from tests.unit.cli.test_main import status_of

from cellwright import doctor

pytestmark = pytest.mark.slow


@pytest.fixture
def open_folder():
    """A folder that a dropped uid may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def findings():
    return {finding.name: finding for finding in doctor.examine()}


def test_machine_that_was_set_up_lacks_nothing():
    assert [finding for finding in doctor.examine() if not finding.ok] == []


def test_missing_programs_are_named_with_one_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = findings()
    for name, program in (("bubblewrap", "bwrap"), ("X server", "Xvnc"), ("window manager", "openbox")):
        assert found[name].detail == f"there is no `{program}` on PATH"
        assert found[name].remedy == "bash scripts/setup.sh"
    assert found["namespaces"].detail == "not tried without bubblewrap"
    assert not found["namespaces"].ok


def test_program_that_does_not_work_is_not_found(monkeypatch, tmp_path):
    fake = tmp_path / "Xvnc"
    fake.write_text("#!/bin/sh\necho libGL is missing >&2\nexit 127\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert findings()["X server"].detail == f"{fake} ended with status 127: libGL is missing"


def test_refused_namespaces_are_told_in_bubblewraps_words(monkeypatch, open_folder):
    fake = open_folder / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(open_folder), prepend=":")
    found = findings()["namespaces"]
    assert not found.ok
    assert found.detail == "bwrap: setting up uid map: Permission denied"
    assert found.remedy


def test_runtime_that_was_not_built_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert findings()["runtime"].detail.endswith("is not built")
    assert findings()["namespaces"].ok


def test_doctor_on_a_machine_that_lacks_something_exits_with_3(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert status_of(monkeypatch, "doctor", "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [finding["name"] for finding in told["needed"] if not finding["ok"]] == ["runtime"]


def test_doctor_ends_with_the_command_that_mends_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert status_of(monkeypatch, "doctor") == 3
    assert capsys.readouterr().out.endswith("\n1 missing. To mend it:\n  bash scripts/setup.sh\n")
