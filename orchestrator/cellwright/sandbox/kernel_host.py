"""A kernel host from outside: its door, its settings and the wait until it is usable, as every backend has them.

Flows in: a Spec; a sandbox whose kernel host was started. Flows out: the listening socket and the settings that it is
started with; a return once it is usable, or what is missing. Decided here: how long an inside may take to come up, and
what is said when it does not.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.runtime import chromium_path
from cellwright_kernel.wire import Forward, HostSettings

READY_S: Final = 30.0
"""Seconds that the inside has to become usable; 1.5 to 2.5 are usual on two cores."""


def listen(path: Path) -> socket.socket:
    """Return a listening Unix socket that only its owner may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(64)
    return listener


def host_settings(spec: Spec, *, door: str, forwards: Sequence[Forward]) -> HostSettings:
    """Return what the kernel host is started with, as far as every backend says it alike."""
    return HostSettings(
        door=door,
        width=spec.width,
        height=spec.height,
        viewport_width=spec.width,
        viewport_height=spec.viewport_height,
        chromium=str(chromium_path()),
        forwards=tuple(forwards),
        env=spec.env,
    )


async def wait_ready(sandbox: Sandbox, launched: Launched) -> None:
    """Wait until the kernel host says that the inside is usable.

    Raises:
        SandboxUnavailable: It ended, failed, or was not usable within `READY_S`.
    """
    asking = asyncio.ensure_future(sandbox.door.ready(READY_S))
    ending = asyncio.ensure_future(launched.ended())
    try:
        await asyncio.wait({asking, ending}, timeout=READY_S + 5, return_when=asyncio.FIRST_COMPLETED)
        if asking.done() and asking.exception() is None and asking.result().ready:
            return
        if asking.done() and asking.exception() is None:
            what = " ".join(asking.result().missing)
        elif asking.done():  # the door broke; how it ended follows at once, or the kernel host speaks another language
            await asyncio.wait({ending}, timeout=1)
            how = ending.result() if ending.done() else str(asking.exception())
            what = f"The kernel host did not come up: {how}"
        elif ending.done():
            what = f"The sandbox ended while starting: {ending.result()}"
        else:
            what = f"The inside was not usable within {READY_S:.0f} s."
    finally:
        for waiting in (asking, ending):
            waiting.cancel()
        await asyncio.gather(asking, ending, return_exceptions=True)
    raise SandboxUnavailable(
        f"{what} {launched.log_tail()} Usually a package is missing or user namespaces are not allowed here. "
        "Nothing is left running. Run `cellwright doctor`."
    )
