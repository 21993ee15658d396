"""A real desktop for a test, without a sandbox around it: Xvnc and, if asked for, the window manager.

Decided here: the end of it leaves no process, whatever the test did to its parts, and no socket unless the server was killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cellwright_kernel.desktop import Desktop
from cellwright_kernel.wire import HostSettings
from tests.serving import alive


@asynccontextmanager
async def running_desktop(folder: Path, *, window_manager: bool = True) -> AsyncIterator[Desktop]:
    """Start one whose files lie in `folder`; it ends with the block."""
    desktop = Desktop(HostSettings(door="fd:3", home=str(folder)), folder)
    started: set[int] = set()
    try:
        await (desktop.start() if window_manager else desktop.start_display())
        started |= _pids(desktop)
        yield desktop
    finally:
        started |= _pids(desktop)
        is_sound = desktop.has_display
        await desktop.stop()
    assert not alive(started)
    assert not (is_sound and desktop.vnc_socket.exists())


def _pids(desktop: Desktop) -> set[int]:
    return {child.pid for child in desktop._children.values()}
