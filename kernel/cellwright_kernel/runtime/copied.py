"""The clipboard's owner, in the process of an exported run.

Flows in: DISPLAY, a private folder. Flows out: a socket, named in the environment, by which `clipboard` works in both languages.
Decided here: it is the same owner that a sandbox's kernel host has; what was copied is gone with the process.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from cellwright_kernel.clipboard.clipboard import WHERE
from cellwright_kernel.clipboard.owner import ClipboardOwner
from cellwright_kernel.screen.loop_thread import LoopThread

_CALL_S: Final = 20.0


def started_clipboard(ending: ExitStack, folder: Path) -> None:
    """Start it, name it in the environment, and have it end with the stack."""
    owner = ClipboardOwner(folder / "clipboard")
    thread = LoopThread("clipboard")
    thread.submit(owner.start(os.environ["DISPLAY"])).result(_CALL_S)
    ending.callback(lambda: thread.submit(owner.stop()).result(_CALL_S))
    os.environ[WHERE] = str(owner.socket)
    ending.callback(lambda: os.environ.pop(WHERE, None))
