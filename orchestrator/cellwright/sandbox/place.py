"""Where a sandbox's outside things lie, and under which uid it runs.

Flows in: who we are. Flows out: a `Place`: a private folder for sockets, and a uid that is never 0.
Decided here: as root, every sandbox gets a numeric uid of its own from a range that no passwd entry is needed for,
held by a lock that ends with our process; as anyone else, the sandbox runs as that user, because nobody else may be
had without root.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellwright.errors import SandboxUnavailable

UIDS: Final = range(64001, 65000)
"""Below 65536, so that they exist in containers that map only the first 64 Ki ids too."""


@dataclass(frozen=True)
class Place:
    """A private folder outside, and the identity of one sandbox."""

    folder: Path
    """Only we and the sandbox's uid may enter it."""
    uid: int
    gid: int
    lock: int | None
    """Descriptor whose lock keeps the uid ours; None where the uid is the caller's own."""

    @property
    def drops(self) -> bool:
        """True when the sandbox runs as another uid than ours."""
        return self.lock is not None

    def leave(self) -> None:
        """Remove the folder and give the uid back."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)


def take_place() -> Place:
    """Make a folder and take a uid for one sandbox.

    Raises:
        SandboxUnavailable: As root, every uid of the range is in use.
    """
    base = sockets_folder()
    if os.getuid() != 0:
        return Place(_new_folder(base), os.getuid(), os.getgid(), None)
    uid, lock = _take_uid(base)
    folder = _new_folder(base)
    os.chown(folder, uid, uid)
    return Place(folder, uid, uid, lock)


def sockets_folder() -> Path:
    """Return the folder below which sockets lie; short, since a socket's path has at most 107 bytes."""
    if os.getuid() == 0:
        base = Path("/run/cellwright")
    elif runtime := os.environ.get("XDG_RUNTIME_DIR"):
        base = Path(runtime) / "cellwright"
    else:
        base = Path(tempfile.gettempdir()) / f"cellwright-{os.getuid()}"
    base.mkdir(mode=0o711, exist_ok=True, parents=True)
    if base.stat().st_uid != os.getuid() or base.is_symlink():
        raise SandboxUnavailable(
            f"{base} belongs to somebody else. Usually another user made it on purpose. Nothing was started. "
            "Set XDG_RUNTIME_DIR to a folder of your own."
        )
    return base


def _new_folder(base: Path) -> Path:
    folder = base / secrets.token_hex(8)
    folder.mkdir(mode=0o700)
    return folder


def _take_uid(base: Path) -> tuple[int, int]:
    locks = base / "uids"
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
