"""The folder of the kernel host's package, which sandboxes bind."""

import os
import subprocess
from pathlib import Path

import pytest

from cellwright.sandbox import runtime

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))


def test_kernel_folder_holds_the_package_readable_by_everyone_and_compiled():
    before = os.umask(0o077)
    try:
        folder = runtime.kernel_folder()
    finally:
        os.umask(before)
    source = Path(runtime.lock_file()).parent
    assert [path.name for path in folder.iterdir()] == ["cellwright_kernel"]
    assert (folder / "cellwright_kernel/wire.py").read_bytes() == (source / "wire.py").read_bytes()
    assert list(folder.glob("cellwright_kernel/__pycache__/wire.*.pyc"))
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def test_kernel_folder_runs_from_its_compiled_files_alone():
    """Unchecked hashes: the interpreter takes them without looking at the source, whose time a mount may change."""
    folder = runtime.kernel_folder()
    source = folder / "cellwright_kernel/__init__.py"
    source.write_text("raise SystemExit('compiled anew')")
    command = [
        str(runtime.SYSTEM_PYTHON),
        "-c",
        "import cellwright_kernel; print(cellwright_kernel.__doc__ is not None)",
    ]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env={"PYTHONPATH": str(folder)})
    assert ended.stdout == "True\n"


def test_kernel_folder_is_copied_once_for_each_content(monkeypatch, tmp_path):
    package = tmp_path / "source/cellwright_kernel"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("'first'")
    monkeypatch.setattr(runtime, "_kernel_package", lambda: package)
    first = runtime.kernel_folder()
    made = first.stat().st_ino
    assert runtime.kernel_folder() == first
    assert first.stat().st_ino == made
    (package / "__init__.py").write_text("'second'")
    second = runtime.kernel_folder()
    assert second != first
    assert (first / "cellwright_kernel/__init__.py").read_text() == "'first'"
    assert (second / "cellwright_kernel/__init__.py").read_text() == "'second'"
    assert sorted(path.name for path in first.parent.iterdir()) == sorted((first.name, second.name))
