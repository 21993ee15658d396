"""Where a sandbox's outside things lie, and under which uid it runs.

Flows in: who we are. Flows out: a `Place`: a private folder for sockets, and a uid that is never 0.
Decided here: as root, every sandbox gets a numeric uid of its own from a range that no passwd entry is needed for,
held by a lock that ends with our process; as anyone else, the sandbox runs as that user, because nobody else may be
had without root; and that what a killed Cellwright left behind is removed by its cleaner, or else by the next one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.cleaner import Removal, folder_removal

UIDS: Final = range(64001, 65000)
"""Below 65536, so that they exist in containers that map only the first 64 Ki ids too."""
_BASE_BYTES: Final = 70
"""A socket's path has at most 107 bytes, and ours lie up to 35 deeper."""
_UIDS: Final = "uids"
_NEW_S: Final = 60.0
"""Seconds that a folder is left alone in any case: its socket may not be listened at yet."""


@dataclass(frozen=True)
class Place:
    """A private folder outside, and the identity of one sandbox."""

    folder: Path
    """Only we and the sandbox's uid may enter it."""
    uid: int
    gid: int
    lock: int | None
    """Descriptor whose lock keeps the uid ours; None where the uid is the caller's own."""
    removal: Removal
    """Has the folder removed if we are killed."""

    @property
    def drops(self) -> bool:
        """True when the sandbox runs as another uid than ours."""
        return self.lock is not None

    def leave(self) -> None:
        """Remove the folder and give the uid back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.removal.call_off()
        if self.lock is not None:
            os.close(self.lock)


def take_place() -> Place:
    """Make a folder and take a uid for one sandbox.

    Raises:
        SandboxUnavailable: As root, every uid of the range is in use.
    """
    base = sockets_folder()
    _remove_left_behind(base)
    if os.getuid() != 0:
        folder = _new_folder(base)
        return Place(folder, os.getuid(), os.getgid(), None, folder_removal(folder))
    uid, lock = _take_uid(base)
    folder = _new_folder(base)
    os.chown(folder, uid, uid)
    return Place(folder, uid, uid, lock, folder_removal(folder))


def sockets_folder() -> Path:
    """Return the folder below which sockets lie; short, since a socket's path has at most 107 bytes."""
    if os.getuid() == 0:
        base = Path("/run/cellwright")
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        base = Path(runtime) / "cellwright"
    else:
        base = Path(tempfile.gettempdir()) / f"cellwright-{os.getuid()}"
    if len(os.fsencode(base)) > _BASE_BYTES:
        raise SandboxUnavailable(
            f"{base} is too long a path for sockets to lie below it. Nothing was started. Set XDG_RUNTIME_DIR to a "
            f"folder of at most {_BASE_BYTES - 11} bytes."
        )
    try:
        base.mkdir(mode=0o711, exist_ok=True, parents=True)
    except OSError as error:
        raise SandboxUnavailable(
            f"{base} could not be made: {error.strerror}. Usually XDG_RUNTIME_DIR or TMPDIR names a folder that is not "
            "yours. Nothing was started. Set XDG_RUNTIME_DIR to a folder of your own."
        ) from error
    if base.stat().st_uid != os.getuid() or base.is_symlink():
        raise SandboxUnavailable(
            f"{base} belongs to somebody else. Usually another user made it on purpose. Nothing was started. "
            "Set XDG_RUNTIME_DIR to a folder of your own."
        )
    return base


def _remove_left_behind(base: Path) -> None:
    """Remove the folders at whose sockets nobody listens any more: their owner was killed, and could not."""
    for folder in base.iterdir():
        try:
            is_left = (
                not folder.is_symlink()
                and folder.is_dir()
                and folder.name != _UIDS
                and time.time() - folder.stat().st_mtime > _NEW_S
                and not any(_is_listened_at(path) for path in folder.iterdir())
            )
        except OSError:  # its owner is removing it
            continue
        if is_left:
            shutil.rmtree(folder, ignore_errors=True)


def _is_listened_at(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        try:
            asking.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # too many are waiting there
            return True
    return True


def _new_folder(base: Path) -> Path:
    folder = base / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    return folder


def _take_uid(base: Path) -> tuple[int, int]:
    locks = base / _UIDS
    locks.mkdir(mode=0o700, exist_ok=True)
    first = secrets.randbelow(len(UIDS))
    for n in range(len(UIDS)):
        uid = UIDS[(first + n) % len(UIDS)]
        lock = os.open(locks / str(uid), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return uid, lock
    raise SandboxUnavailable(
        f"All {len(UIDS)} uids for sandboxes are in use. Usually sandboxes were left running. "
        "Nothing was started. Close some sessions."
    )
