"""Where sandboxes' sockets lie: what a killed process left is removed, what lives is left alone."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox import place as places
from cellwright.sandbox.place import take_place


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "sockets_folder", lambda: tmp_path)
    return tmp_path


def folder(base: Path, name: str, *, age_s: float = 3600) -> Path:
    made = base / name
    made.mkdir()
    os.utime(made, (time.time() - age_s,) * 2)
    return made


def test_what_a_killed_process_left_is_removed(base: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead, socket.socket(socket.AF_UNIX) as alive:
        for name, door in (("dead", dead), ("alive", alive)):
            door.bind(str(folder(base, name) / "door"))
            os.utime(base / name, (0, 0))
        alive.listen()
        folder(base, "empty")
        folder(base, "new", age_s=0)
        (base / "link").symlink_to(base / "alive")
        (base / "file").touch()
        place = take_place()
    left = {path.name for path in base.iterdir()} - {"uids", place.folder.name}
    place.leave()
    assert left == {"alive", "new", "link", "file"}
    assert not place.folder.exists()


@pytest.mark.parametrize("runtime", ["/proc/nope", "file", "d" * 120])
def test_a_folder_that_no_socket_can_lie_in_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / runtime))
    with pytest.raises(SandboxUnavailable, match="XDG_RUNTIME_DIR"):
        take_place()
