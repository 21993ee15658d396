"""Builds the inside's runtime: `python -m cellwright.sandbox.build`, which is what `scripts/setup.sh` calls.

Flows in: the lock file that the kernel package carries, and the package registry that pip is set up with. Flows out: the
folder that `runtime.runtime_folder()` names. Decided here: the runtime is built under another name and renamed when it is
whole, so that a broken build is never used; what is built already is left alone.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cellwright.errors import CellwrightError, EnvironmentMissing
from cellwright.sandbox.runtime import (
    INSIDE,
    SYSTEM_PYTHON,
    compile_folder,
    kernel_folder,
    lock_file,
    make_readable,
    publish,
    runtime_place,
)


def build_runtime() -> Path:
    """Build the runtime unless it is there, and return its folder. Takes about 40 s, most of it downloads.

    Raises:
        EnvironmentMissing: A package could not be installed, or the folder could not be written.
    """
    place = runtime_place()
    if place.is_dir():
        return place
    try:
        make_readable(place.parent)
        with _alone(place.parent / ".lock"):
            if not place.is_dir():
                _build(place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentMissing(
            f"The sandbox's runtime could not be built ({error}). Usually the package registry did not answer, the "
            "disk is full or python3-venv is missing. Nothing half-built is left. Mend that and run "
            "`bash scripts/setup.sh` again."
        ) from error
    return place


def main() -> int:
    """Build what is missing; print one line where something was."""
    try:
        if not runtime_place().is_dir():
            print("Building the sandbox's Python runtime", flush=True)  # noqa: T201 - set-up prints its progress
        build_runtime()
        kernel_folder()
    except CellwrightError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the same
        return error.exit_status
    return 0


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process builds here."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(place: Path) -> None:
    for broken in place.parent.glob(".building-*"):  # left by a build that was killed; we hold the lock
        shutil.rmtree(broken, ignore_errors=True)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    try:
        _install(building)
        _list_fonts(building)
        _point_inside(building)
        compile_folder(building / "bin/python", building, bound_at=INSIDE)
        publish(building, place)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _install(building: Path) -> None:
    _run(str(SYSTEM_PYTHON), "-I", "-m", "venv", str(building))
    locked = lock_file().read_text()
    # some packages come as source only; they are built with the pinned setuptools rather than any that pip would fetch
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as builder:
        builder.write(locked_entry(locked, "setuptools"))
        builder.flush()
        _pip_install(building, builder.name)
    _pip_install(building, str(lock_file()), "--no-build-isolation", "--use-pep517")


def locked_entry(locked: str, name: str) -> str:
    """Return the lines of one package in a lock file: its pin and its hashes."""
    entry = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*\n", locked, re.MULTILINE)
    if entry is None:
        raise EnvironmentMissing(
            f"The lock file does not pin {name}. Usually it was edited by hand. Run scripts/lock.sh."
        )
    return entry.group()


def _pip_install(building: Path, requirements: str, *options: str) -> None:
    # the lock names everything, so pip need not resolve; compiling follows for all at once
    always = ("-qq", "--require-hashes", "--no-deps", "--no-compile", "--disable-pip-version-check")
    _run(str(building / "bin/python"), "-m", "pip", "install", *always, *options, "-r", requirements)


def _list_fonts(building: Path) -> None:
    """Have matplotlib look for fonts now: that takes it 2 s, and each sandbox would do it again at its first figure."""
    if not any(building.glob("lib/python3*/site-packages/matplotlib")):
        return
    folder = building / "share/cellwright/matplotlib"
    folder.mkdir(parents=True)
    quiet = "import logging; logging.disable(); import matplotlib.font_manager"  # it would say that it is looking
    with tempfile.TemporaryDirectory() as cache:  # fontconfig's, which complains where it has none
        # a home of nobody, so that no font of the caller's own is in the list
        places = ("HOME=/nonexistent", f"XDG_CACHE_HOME={cache}", f"MPLCONFIGDIR={folder}", "PATH=/usr/bin:/bin")
        _run("env", "-i", *places, str(building / "bin/python"), "-I", "-c", quiet)


def _point_inside(building: Path) -> None:
    """Make the environment one that lives at `INSIDE`: its scripts, its way to the kernel package, and the mount point."""
    (building / "kernel").mkdir()
    for packages in building.glob("lib/python3*/site-packages"):
        (packages / "cellwright_kernel.pth").write_text(f"{INSIDE / 'kernel'}\n")
    for script in (building / "bin").iterdir():
        if not script.is_symlink():
            script.write_bytes(script.read_bytes().replace(bytes(building), bytes(INSIDE)))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, umask=0o022, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
