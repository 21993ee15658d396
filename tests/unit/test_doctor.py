"""What the doctor says of a browser, the disk, a key and the uid."""

import shutil

from cellwright import doctor


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
