"""What a session that is to be repeatable fixes.

Flows in: `HostSettings.deterministic`. Flows out: environment and flags of the kernels and of Chromium. Decided here: that
random numbers begin at the same seed, of Python, numpy and JavaScript in Node and in pages (there each connection of Playwright's
takes some of them, for worlds of its own); that strings hash alike, so that sets
have one order; and that time zone and locale are the same everywhere. Not the clock: certificates, timeouts and whatever waits
would see it stand still. Not what the system makes random: `secrets`, `uuid4`, `os.urandom`. Pages are asked to leave out motion
once a language has attached to them; not all of them do.
"""

from __future__ import annotations

import os
import random
from types import ModuleType
from typing import Final

from cellwright_kernel.python.after_import import AfterImport

SEED: Final = 1
_NAME: Final = "CELLWRIGHT_SEED"


def environment() -> dict[str, str]:
    """Return what the kernels, and what they start, find in their environment."""
    return {"PYTHONHASHSEED": str(SEED), "TZ": "UTC", "LC_ALL": "C.UTF-8", _NAME: str(SEED)}


def is_on() -> bool:
    """Return whether this process is of a kernel that is to be repeatable."""
    return os.environ.get(_NAME, "").isdecimal()


def chromium_flags() -> tuple[str, ...]:
    """Return Chromium's flags."""
    return (f"--js-flags=--random-seed={SEED}",)


def node_flags() -> tuple[str, ...]:
    """Return Node's flags, in a kernel that is to be repeatable; else none."""
    return (f"--random-seed={os.environ[_NAME]}",) if is_on() else ()


def seed_python(after_import: AfterImport) -> None:
    """Begin this process's random numbers at the seed, in a kernel that is to be repeatable."""
    if is_on():
        seed = int(os.environ[_NAME])
        random.seed(seed)

        def seed_numpy(numpy: ModuleType) -> None:
            numpy.random.seed(seed)

        after_import.do("numpy", seed_numpy)
