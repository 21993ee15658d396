"""Which engines of OCI images work on this machine, and have the sandbox image: what they start is tested only there."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest

from cellwright.sandbox.base import Spec

ANSWER_S = 30


def needs(engine: str) -> pytest.MarkDecorator:
    """Return the mark of what needs an engine with the image; without either it is skipped, and says how to get it."""
    reason = f"{engine} or its image is not here: `bash scripts/setup.sh --{engine}` makes it"
    return pytest.mark.skipif(not has_image(engine), reason=reason)


@cache
def has_image(engine: str) -> bool:
    """Return whether an engine answers and has the image; takes 0.1 s, and nothing where there is no engine."""
    if shutil.which(engine) is None:
        return False
    asked = subprocess.run(
        [engine, "image", "inspect", Spec().image], capture_output=True, check=False, timeout=ANSWER_S
    )
    return asked.returncode == 0


def names(engine: str) -> set[str]:
    """Return the names of all sandboxes of ours that an engine keeps something of."""
    listed = subprocess.run(
        [engine, "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True, check=True, timeout=ANSWER_S
    )
    return {name for name in listed.stdout.split() if name.startswith("cellwright-")}
