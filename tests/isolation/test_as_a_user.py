"""The whole suite once more as an ordinary user, where it was started by root: nobody but root can become another.

Flows in: this folder's tests. Flows out: their end, in words where it is a bad one. Decided here: the user is a bare number
that has no name, no groups, no environment of ours, and none of root's folders but the checkout and the runtime, which is shown
to it where everybody may look, in a namespace of mounts that ends with it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from cellwright.sandbox.runtime import data_folder, kernel_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(os.getuid() != 0, reason="it is an ordinary user who runs the suite already"),
]

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


def test_what_holds_for_root_holds_for_an_ordinary_user() -> None:
    kernel_folder()  # is made by who first needs it
    with tempfile.TemporaryDirectory(prefix="as-a-user.") as folder:
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
        ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=END_S, env=environment)
    said = ended.stdout[-8000:] + ended.stderr[-2000:]
    assert ended.returncode == 0, said
    assert " passed" in said, said
