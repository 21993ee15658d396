"""This folder's tests in a process of an ordinary user, where they were started by root: nobody but root can become another.

Flows in: this folder's tests. Flows out: their end, in words. Decided here: the user is a bare number that has no name, no
groups, no environment of ours, and none of root's folders but the checkout and the runtime, which is shown to it where
everybody may look, in a namespace of mounts that ends with it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cellwright.sandbox.runtime import data_folder, kernel_folder

ROOT = Path(__file__).parents[2]
USER = 65000
END_S = 600
AS_USER = """
set -eu
mount --bind "$1" "$2"
cd "$2"
exec setpriv --reuid "$3" --regid "$3" --clear-groups --bounding-set -all --no-new-privs \
  .venv/bin/python -m pytest -p no:cacheprovider -q -k bubblewrap tests/isolation
"""


@dataclass(frozen=True)
class Suite:
    """The tests that run as the user."""

    process: subprocess.Popen[bytes]
    written: IO[bytes]

    def end(self) -> tuple[int, str]:
        """Wait for it; return its status, and the end of what it said."""
        status = self.process.wait(END_S)
        self.written.seek(0)
        return status, self.written.read().decode()[-10_000:]


@contextmanager
def begun() -> Iterator[Suite]:
    """Start them; with the block they end."""
    kernel_folder()  # is made by who first needs it
    with tempfile.TemporaryDirectory(prefix="as-a-user.") as folder, tempfile.TemporaryFile() as written:
        home, checkout = Path(folder, "home"), Path(folder, "checkout")
        for path in (Path(folder), home, checkout):
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        os.chown(home, USER, USER)
        environment = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "USER": "somebody",
            "HOME": str(home),
            "TMPDIR": str(home),
            "CELLWRIGHT_DATA": str(data_folder()),
            "PYTHONPATH": os.pathsep.join(str(checkout / part) for part in ("kernel", "orchestrator")),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        words = ["unshare", "--mount", "bash", "-c", AS_USER, "as-a-user", str(ROOT), str(checkout), str(USER)]
        with subprocess.Popen(words, stdout=written, stderr=subprocess.STDOUT, env=environment) as process:
            try:
                yield Suite(process, written)
            finally:
                if process.poll() is None:
                    process.terminate()
