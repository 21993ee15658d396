"""Building the inside's runtime, as far as it goes without a registry; set-up itself is the rest of the test."""

import pytest

from cellwright.errors import EnvironmentMissing
from cellwright.sandbox import build, runtime

LOCK = """\
six==1.17.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
setuptools==84.2.1 \\
    --hash=sha256:cc
setuptools-scm==9.0
"""


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    return tmp_path


def test_entry_of_a_lock_is_its_pin_and_its_hashes():
    assert build.locked_entry(LOCK, "six") == "six==1.17.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"
    assert build.locked_entry(LOCK, "setuptools") == "setuptools==84.2.1 \\\n    --hash=sha256:cc\n"


def test_entry_that_is_not_locked_is_an_error():
    with pytest.raises(EnvironmentMissing, match="does not pin wheel"):
        build.locked_entry(LOCK, "wheel")


def test_inside_lock_pins_what_builds_the_packages_that_come_as_source():
    assert build.locked_entry(runtime.lock_file().read_text(), "setuptools").startswith("setuptools==")


def test_built_runtime_is_left_alone():
    runtime.runtime_place().mkdir(parents=True)
    (runtime.runtime_place() / "ours").touch()
    assert build.build_runtime() == runtime.runtime_place()
    assert [path.name for path in runtime.runtime_place().iterdir()] == ["ours"]


def test_killed_build_is_swept_away_by_the_next(monkeypatch, data):
    broken = data / "runtime/.building-x"
    broken.mkdir(parents=True)
    monkeypatch.setattr(build, "_install", lambda building: (building / "bin").mkdir())
    monkeypatch.setattr(build, "compile_folder", lambda *_, **__: None)
    place = build.build_runtime()
    assert sorted(path.name for path in (data / "runtime").iterdir()) == [".lock", place.name]


def test_scripts_of_the_runtime_name_the_interpreter_of_the_inside(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "bin/ipython").write_text(f"#!{tmp_path}/bin/python\nprint(1)\n")
    (tmp_path / "bin/python").symlink_to("/usr/bin/python3")
    build._point_inside(tmp_path)
    assert (tmp_path / "bin/ipython").read_text() == "#!/opt/cellwright/bin/python\nprint(1)\n"
    assert (tmp_path / "bin/python").readlink().as_posix() == "/usr/bin/python3"
    assert next(tmp_path.rglob("*.pth")).read_text() == "/opt/cellwright/kernel\n"
    assert (tmp_path / "kernel").is_dir()


def test_fonts_are_listed_only_for_a_runtime_with_matplotlib(tmp_path):
    build._list_fonts(tmp_path)
    assert list(tmp_path.iterdir()) == []
