"""What the inside runs on, in numbers.

Flows in: nothing. Flows out: name -> version, for the record of a run. Decided here: where each number comes from; Node is
asked itself (7 ms), and what is not there has no number.
"""

from __future__ import annotations

import asyncio
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path


async def versions() -> dict[str, str]:
    """Return the versions of Python, of Playwright and of the Node in its wheel."""
    found = {"python": platform.python_version(), "playwright": _playwright(), "node": await _node()}
    return {name: number for name, number in found.items() if number}


def _playwright() -> str:
    try:
        return version("playwright")
    except PackageNotFoundError:
        return ""


async def _node() -> str:
    spec = find_spec("playwright")
    if spec is None or spec.origin is None:
        return ""
    node = Path(spec.origin).parent / "driver" / "node"
    try:
        asked = await asyncio.create_subprocess_exec(
            node, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
    except OSError:
        return ""
    said, _ = await asked.communicate()
    return said.decode(errors="replace").strip().removeprefix("v")
