"""What this machine is missing, and the one command that mends it.

Flows in: this machine. Flows out: a `Finding` for each requirement, in the order in which they build on each other, and
a sentence for each kind of isolation and limit that is in force. Decided here: what counts as needed. Namespaces are
tried for real, as the uid that a sandbox would have; versions are read from the programs, never from the packager.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from cellwright.errors import CellwrightError, EnvironmentMissing
from cellwright.sandbox.base import Limits
from cellwright.sandbox.bubblewrap import bubblewrap_options
from cellwright.sandbox.limits import limits_here
from cellwright.sandbox.place import UIDS, Place, take_place
from cellwright.sandbox.runtime import (
    SYSTEM_PYTHON,
    chromium_path,
    data_folder,
    kernel_folder,
    runtime_folder,
    runtime_place,
)
from cellwright.sandbox.seccomp import browser_filter

SETUP: Final = "bash scripts/setup.sh"
"""What installs everything; shown where that mends it."""

_PROGRAM_S: Final = 20.0
"""Seconds that a program has to tell its version; a cold Chromium needs up to 3 on two cores."""

_FREE_BYTES: Final = 1024**3
"""A runtime has 0.6 GB, and a run may keep blobs of up to 2 GiB: below this, warn before something is half written."""

_ALPHABETS: Final = {"Latin": ":lang=en", "CJK": ":lang=zh-cn", "emoji": ":charset=1f680"}
"""What the desktop's fonts must show, and how fontconfig is asked for it."""


_REGISTRY: Final = Path("/usr/share/dbus-1/accessibility-services/org.a11y.atspi.Registry.service")


class Finding(BaseModel):
    """One line of the doctor: a requirement, found or not."""

    model_config = ConfigDict(frozen=True)

    name: str
    ok: bool
    detail: str
    """What was found, or what is missing."""
    remedy: str | None = None
    """The one command that mends it; absent when nothing is to be done."""


def examine() -> list[Finding]:
    """Return what was found of everything that is needed. Takes about half a second."""
    return [
        _python(),
        _program("bubblewrap", "bwrap", "--version"),
        _seccomp(),
        _runtime(),
        _namespaces(),
        _program("X server", "Xvnc", "-version"),
        _program("window manager", "openbox", "--version"),
        _found("keyboard compiler", "xkbcomp"),
        _found("clipboard of programs", "xclip"),
        _found("reader of the screen", "tesseract"),
        _found("bus of programs", "dbus-daemon"),
        _registry(),
        _chromium(),
        *(_font(name, query) for name, query in _ALPHABETS.items()),
        _disk(),
    ]


def in_force() -> list[Finding]:
    """Return what isolates a sandbox on this machine, and what limits it; these are facts, not requirements."""
    if os.getuid() == 0:
        who = f"each sandbox runs as a numeric uid of its own ({UIDS.start} to {UIDS.stop - 1}), never as root"
    else:
        who = f"every sandbox runs as you (uid {os.getuid()}), in namespaces that show it nothing of yours"
    key = "set" if os.environ.get("OPENAI_API_KEY") else "not set: `cellwright run` needs it, or an emulator"
    return [
        Finding(name="uid", ok=True, detail=who),
        Finding(name="network", ok=True, detail="none of its own; the only way out is the egress proxy's allow-list"),
        *(Finding(name=name, ok=True, detail=means) for name, means in limits_here(Limits()).items()),
        Finding(name="model key", ok=True, detail=f"OPENAI_API_KEY is {key}"),
    ]


def _python() -> Finding:
    ours = "outside {}.{}.{}".format(*sys.version_info[:3])
    said = _said([str(SYSTEM_PYTHON), "-I", "-c", "import sys, tkinter; print('%d.%d.%d' % sys.version_info[:3])"])
    if said.ok and tuple(int(part) for part in said.detail.split(".")) >= (3, 11):
        return Finding(name="python", ok=True, detail=f"{ours}, inside {said.detail}")
    if said.ok:
        return Finding(name="python", ok=False, detail=f"{SYSTEM_PYTHON} is {said.detail}; 3.11 or later is needed")
    return said.model_copy(update={"name": "python"})


def _registry() -> Finding:
    """Look for the part of AT-SPI that knows the programs; the bus starts it by this file."""
    name = "accessibility"
    if _REGISTRY.is_file():
        return Finding(name=name, ok=True, detail=str(_REGISTRY))
    return Finding(name=name, ok=False, detail=f"there is no {_REGISTRY}: at-spi2-core is missing", remedy=SETUP)


def _program(name: str, program: str, option: str) -> Finding:
    """Look for a program and ask for its version."""
    found = _found(name, program)
    return _said([found.detail, option]).model_copy(update={"name": name}) if found.ok else found


def _found(name: str, program: str) -> Finding:
    path = shutil.which(program)
    if path is None:
        return Finding(name=name, ok=False, detail=f"there is no `{program}` on PATH", remedy=SETUP)
    return Finding(name=name, ok=True, detail=path)


def _said(command: list[str]) -> Finding:
    """Run a program that tells something of itself; its first line is the detail."""
    try:
        # Xvnc tells its version on stderr, after an empty line
        ended = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PROGRAM_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name=command[0], ok=False, detail=f"{command[0]} did not answer: {error}", remedy=SETUP)
    lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
    if ended.returncode != 0:
        why = lines[-1] if lines else "it said nothing"
        detail = f"{command[0]} ended with status {ended.returncode}: {why}"
        return Finding(name=command[0], ok=False, detail=detail, remedy=SETUP)
    return Finding(name=command[0], ok=True, detail=lines[0] if lines else command[0])


def _seccomp() -> Finding:
    try:
        size = len(browser_filter())
    except (ImportError, OSError, RuntimeError) as error:
        return Finding(name="seccomp", ok=False, detail=f"libseccomp does not load: {error}", remedy=SETUP)
    return Finding(name="seccomp", ok=True, detail=f"the filter has {size} bytes")


def _runtime() -> Finding:
    try:
        return Finding(name="runtime", ok=True, detail=f"{runtime_folder()}, kernel {kernel_folder().name}")
    except EnvironmentMissing:
        return Finding(name="runtime", ok=False, detail=f"{runtime_place()} is not built", remedy=SETUP)


def _namespaces() -> Finding:
    """Start a sandbox with nothing in it, made and under a uid as a real one."""
    name = "namespaces"
    command = shutil.which("bwrap")
    if command is None:
        return Finding(name=name, ok=False, detail="not tried without bubblewrap", remedy=SETUP)
    try:
        place = take_place()
    except (CellwrightError, OSError) as error:
        return Finding(name=name, ok=False, detail=str(error))
    try:
        ended = _try_bubblewrap(command, place)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name=name, ok=False, detail=f"bubblewrap did not start: {error}")
    finally:
        place.leave()
    if ended.returncode == 0:
        return Finding(name=name, ok=True, detail=f"user, pid, net, ipc, uts, cgroup: tried as uid {place.uid}")
    return Finding(name=name, ok=False, detail=ended.stderr.strip() or "bubblewrap failed", remedy=_mend_namespaces())


def _try_bubblewrap(command: str, place: Place) -> subprocess.CompletedProcess[str]:
    runtime = runtime_place()
    # with the runtime built, its own interpreter is started: that shows that the dropped uid can read it
    bound = ("--ro-bind", str(runtime), "/opt/cellwright") if runtime.is_dir() else ()
    inner = ("/opt/cellwright/bin/python", "-I", "-c", "pass") if bound else ("/usr/bin/true",)
    dropped = (place.uid, place.gid, ()) if place.drops else (None, None, None)
    return subprocess.run(
        [command, *bubblewrap_options(Limits(), bound), "--", *inner],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PROGRAM_S,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        user=dropped[0],
        group=dropped[1],
        extra_groups=dropped[2],
    )


def _mend_namespaces() -> str:
    """Return the command for the switch that is off, where one is known."""
    switches = {
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        "kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
        "user/max_user_namespaces": ("0", "user.max_user_namespaces=10000"),
    }
    for name, (off, setting) in switches.items():
        file = Path("/proc/sys") / name
        if file.is_file() and file.read_text().strip() == off:
            return f"sudo sysctl -w {setting}"
    # no switch is off: then a seccomp profile or a chroot stands in the way, as in a container
    return "allow user namespaces here; in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"


def _chromium() -> Finding:
    try:
        path = chromium_path()
    except EnvironmentMissing as error:
        return Finding(name="browser", ok=False, detail=str(error).split(". ")[0], remedy=SETUP)
    said = _said([str(path), "--version"])
    return said.model_copy(update={"name": "browser", "detail": f"{said.detail} ({path})" if said.ok else said.detail})


def _font(name: str, query: str) -> Finding:
    name = f"fonts, {name}"
    said = _said(["fc-list", query, "family"])
    if said.ok and said.detail == "fc-list":  # nothing was listed
        return Finding(name=name, ok=False, detail="no installed font shows it", remedy=SETUP)
    return said.model_copy(update={"name": name})


def _disk() -> Finding:
    folder = next(one for one in (data_folder(), *data_folder().parents) if one.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free for {folder}"
    return Finding(
        name="disk",
        ok=free >= _FREE_BYTES,
        detail=detail,
        remedy=None if free >= _FREE_BYTES else f"make room below {folder}; 1 GiB is needed",
    )
