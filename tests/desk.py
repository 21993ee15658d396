"""A private display with a window manager, and a process beside it that runs cells on it: what the input tests share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from Xlib import X, error
from Xlib.display import Display

import cellwright_kernel
from cellwright.sandbox.runtime import kernel_folder, runtime_folder
from tests.waiting import GUARD_S

TARGETS = Path(__file__).parent / "targets"
T = TypeVar("T")


@dataclass
class Desk:
    """One display; everything started on it ends with it."""

    name: str
    folder: Path
    cells: subprocess.Popen[str] = field(init=False)
    started: list[subprocess.Popen[Any]] = field(default_factory=list)

    def start(self, *command: str | Path, **options: Any) -> subprocess.Popen[Any]:
        """Start a program on the display, in a process group of its own."""
        # GTK would start a message bus and an accessibility service for itself, which outlive it
        no_bus = {"DBUS_SESSION_BUS_ADDRESS": "disabled:", "NO_AT_BRIDGE": "1"}
        environment = {**os.environ, **no_bus, "DISPLAY": self.name, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(
            [str(word) for word in command], env=environment, start_new_session=True, **(quiet | options)
        )
        self.started.append(process)
        return process

    def stop(self, process: subprocess.Popen[Any]) -> None:
        """End a program and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(GUARD_S)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        self.started.remove(process)

    def send(self, code: str) -> None:
        """Post a cell without waiting for it."""
        assert self.cells.stdin
        self.cells.stdin.write(json.dumps(code) + "\n")
        self.cells.stdin.flush()

    def reply(self) -> Any:
        """Wait for the cell that was posted."""
        assert self.cells.stdout
        return json.loads(self.cells.stdout.readline())

    def run(self, code: str) -> Any:
        """Run a cell that must not fail; return what it left in `value`."""
        self.send(code)
        reply = self.reply()
        assert reply["error"] is None, reply["error"]
        return reply["value"]

    def error(self, code: str) -> str:
        """Run a cell that must fail; return the error's type and message."""
        self.send(code)
        reply = self.reply()
        assert reply["error"] is not None, "the cell did not fail"
        return str(reply["error"])

    @contextlib.contextmanager
    def watched(self) -> Iterator[Display]:
        """Another program's connection to the display."""
        display = Display(self.name)
        try:
            yield display
        finally:
            display.close()

    def held(self) -> list[int]:
        """Keycodes and buttons (as -1, -2, ...) that are down."""
        with self.watched() as display:
            keys = [8 * i + bit for i, byte in enumerate(display.query_keymap()) for bit in range(8) if byte >> bit & 1]
            mask = display.screen().root.query_pointer().mask
        return keys + [-number for number in range(1, 6) if mask & X.Button1Mask << (number - 1)]

    def await_focus_in(self, title: str) -> None:
        """Wait until a window whose title holds `title` is the active one."""
        with self.watched() as display:
            root, active = display.screen().root, display.intern_atom("_NET_ACTIVE_WINDOW")

            def is_active() -> bool:
                found = root.get_full_property(active, X.AnyPropertyType)
                with contextlib.suppress(error.BadWindow):
                    window = display.create_resource_object("window", found.value[0]) if found else root
                    names = [
                        window.get_full_text_property(display.intern_atom(name)) for name in ("_NET_WM_NAME", "WM_NAME")
                    ]
                    return any(title in name for name in names if name)
                return False

            assert wait_for(is_active), f"no window named {title!r} became active"


def wait_for(fact: Callable[[], T], limit_s: float = GUARD_S) -> T:
    """Ask for a fact until it holds; return it, or what it was at the end."""
    end = time.monotonic() + limit_s
    while not (found := fact()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def desk_in(folder: Path) -> Iterator[Desk]:
    """A desk whose files lie in `folder`."""
    reading, writing = os.pipe()
    desk = Desk("", folder)
    arguments = [
        "-geometry",
        "1440x1000",
        "-depth",
        "24",
        "-SecurityTypes",
        "None",
        "-rfbport",
        "-1",
        "-nolisten",
        "tcp",
    ]
    try:
        desk.start("Xvnc", "-displayfd", str(writing), "-rfbunixpath", folder / "vnc", *arguments, pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as numbers:
            desk.name = f":{numbers.readline().strip()}"
        openbox = Path(cellwright_kernel.__file__).parent / "openbox.xml"
        desk.start("env", "XCOMPOSEFILE=/dev/null", "openbox", "--config-file", openbox, "--sm-disable")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "stderr": None}
        # the inside's own runtime: pyautogui is there, and not in the environment of the tests
        inside = ["env", f"PYTHONPATH={kernel_folder()}", runtime_folder() / "bin" / "python"]
        desk.cells = desk.start(*inside, TARGETS / "cells.py", desk.name, **pipes)
        assert desk.reply() == "ready"
        with desk.watched() as display:
            check = display.intern_atom("_NET_SUPPORTING_WM_CHECK")
            assert wait_for(lambda: display.screen().root.get_full_property(check, X.AnyPropertyType))
        yield desk
    finally:
        for process in reversed(desk.started[:]):
            desk.stop(process)
