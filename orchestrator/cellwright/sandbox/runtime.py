"""What a sandbox is made of on this machine: the inside's runtime, the kernel package, a Chromium.

Flows in: the installed packages and this machine's folders. Flows out: paths that a backend binds.
Decided here: where these things lie, how they are named (by the hash of what they are made from, so that a change
never touches what a running sandbox uses), and that as root they lie where a dropped uid can read them. `build.py`
makes the runtime; nothing else repeats its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from cellwright.errors import EnvironmentMissing

SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
"""The kernels' interpreter; it lies below /usr, which is the same inside."""

INSIDE: Final = Path("/opt/cellwright")
"""Where the runtime is bound inside; the kernel package is bound below it, at `kernel`."""

_DEBIAN_CHROMIUM: Final = Path("/usr/lib/chromium/chromium")
"""Not /usr/bin/chromium: that is a shell script which wants more of the machine than a sandbox has."""


def data_folder() -> Path:
    """Return where built things lie: `CELLWRIGHT_DATA`, or the system's folder as root, or the user's."""
    if chosen := os.environ.get("CELLWRIGHT_DATA"):
        return Path(chosen).absolute()
    if os.getuid() == 0:  # a dropped uid cannot read root's home
        return Path("/var/lib/cellwright")
    home = os.environ.get("XDG_DATA_HOME") or _home() / ".local/share"
    return Path(home) / "cellwright"


def runtime_folder() -> Path:
    """Return the inside's runtime: a virtual environment, read-only to whoever runs in it.

    Raises:
        EnvironmentMissing: It was not built for this lock file and this interpreter.
    """
    folder = runtime_place()
    if not folder.is_dir():
        raise EnvironmentMissing(
            f"The sandbox's runtime is missing ({folder}). Usually set-up has not run since the last update. "
            "Nothing was started. Run `bash scripts/setup.sh`."
        )
    return folder


def runtime_place() -> Path:
    """Return where the runtime lies, built or not."""
    return data_folder() / "runtime" / _digest(lock_file().read_bytes(), _interpreter())


def lock_file() -> Path:
    """Return the list of the inside's Python packages, each pinned by its hash."""
    return _kernel_package() / "requirements.lock"


def kernel_folder() -> Path:
    """Return a folder that holds the kernel package as it is installed now, and nothing else.

    The package is copied there once for each content: the original may lie where a dropped uid cannot read it, and
    may be edited while a sandbox runs. The look-up takes 1 ms, the first copy about 0.2 s.

    Raises:
        EnvironmentMissing: The copy could not be written.
    """
    package = _kernel_package()
    names = sorted(path.relative_to(package) for path in package.rglob("*") if _is_source(path))
    contents = (part for name in names for part in (str(name).encode(), (package / name).read_bytes()))
    place = data_folder() / "kernel" / _digest(*contents, _interpreter())
    if not place.is_dir():
        try:
            _copy_package(package, names, place)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EnvironmentMissing(
                f"The kernel package could not be copied to {place} ({error}). Usually the disk is full or the folder "
                "belongs to somebody else. Nothing was started. Make room, or set CELLWRIGHT_DATA to another folder."
            ) from error
    return place


def chromium_path() -> Path:
    """Return the browser's program: `CELLWRIGHT_CHROMIUM`, else Debian's, else the newest of Playwright's.

    Raises:
        EnvironmentMissing: There is none.
    """
    if chosen := os.environ.get("CELLWRIGHT_CHROMIUM"):
        if Path(chosen).is_file():
            return Path(chosen).absolute()
        raise EnvironmentMissing(
            f"CELLWRIGHT_CHROMIUM names {chosen}, which is not a file. Usually the browser was moved. "
            "Nothing was started. Correct the variable or unset it."
        )
    if _DEBIAN_CHROMIUM.is_file():
        return _DEBIAN_CHROMIUM
    for program in _playwright_chromiums():
        return program
    raise EnvironmentMissing(
        "There is no Chromium on this machine. Usually set-up has not run. Nothing was started. "
        "Run `bash scripts/setup.sh`, or set CELLWRIGHT_CHROMIUM to the browser's program."
    )


def _playwright_chromiums() -> list[Path]:
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    base = Path(chosen) if chosen else _home() / ".cache/ms-playwright"
    found = base.glob("chromium-*/chrome-linux*/chrome")
    return sorted(found, key=lambda program: program.stat().st_mtime, reverse=True)


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise EnvironmentMissing(
            "This user has no home folder to look for Cellwright's runtime in. Usually HOME is not set. Nothing was "
            "started. Set it, or CELLWRIGHT_DATA."
        ) from error


def _kernel_package() -> Path:
    return Path(str(files("cellwright_kernel")))


def _interpreter() -> bytes:
    """Return the interpreter's name with its minor version, such as `python3.11`: a virtual environment is bound to it."""
    return SYSTEM_PYTHON.resolve().name.encode()


def _digest(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:12]


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


def _copy_package(package: Path, names: list[Path], place: Path) -> None:
    make_readable(place.parent)
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    try:
        for name in names:
            copy = building / package.name / name
            make_readable(copy.parent)
            copy.write_bytes((package / name).read_bytes())
            copy.chmod(0o644)
        compile_folder(SYSTEM_PYTHON, building, bound_at=INSIDE / "kernel")
        publish(building, place)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def make_readable(folder: Path) -> None:
    """Make a folder, and those above it that are missing, readable by everyone whatever the umask is."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(exist_ok=True)
        missing.chmod(0o755)


def compile_folder(python: Path, folder: Path, *, bound_at: Path) -> None:
    """Compile every module, so that a read-only mount is used as it is and tracebacks show the paths of the inside."""
    invalidation = ("--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", str(bound_at))
    command = (str(python), "-I", "-W", "ignore", "-m", "compileall", "-q", "-j", "0", *invalidation, str(folder))
    # packages ship a few modules that are no valid Python on purpose, so the exit status says nothing
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, umask=0o022)
    for cached in folder.rglob("__pycache__"):
        cached.chmod(0o755)


def publish(building: Path, place: Path) -> None:
    """Give a finished folder its name; when another process was first, its work is used and ours is left to remove."""
    building.chmod(0o755)
    try:
        building.rename(place)
    except OSError:
        if not place.is_dir():
            raise
