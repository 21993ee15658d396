"""Building the inside's runtime with a real pip that refuses: what is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellwright.errors import EnvironmentMissing
from cellwright.sandbox import build, runtime

pytestmark = pytest.mark.slow

LOCK = f"""\
six==1.17.0 \\
    --hash=sha256:{"a" * 64}
setuptools==84.2.1 \\
    --hash=sha256:{"0" * 64}
"""


def test_broken_build_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lock whose hash is wrong: pip refuses, whether or not a registry answers."""
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    lock = tmp_path / "wrong.lock"
    lock.write_text(LOCK)
    monkeypatch.setattr(build, "lock_file", lambda: lock)
    monkeypatch.setattr(runtime, "lock_file", lambda: lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(EnvironmentMissing, match="Nothing half-built is left"):
        build.build_runtime()
    assert [path.name for path in (tmp_path / "runtime").iterdir()] == [".lock"]
