"""What is removed when we are killed: a keeper, a shell that outlives us, does it.

Flows in: folders of sockets and control groups, while they are ours. Flows out: nothing, as long as we remove them ourselves;
after a SIGKILL they are gone within a second. Decided here: one keeper for all that a process has, started with the first and
ended with the last; its leash is a pipe, whose end tells it that we are gone. Processes are not its matter, as they
end with us (`launch`), but it kills what a group still has. Where it is killed as well, the next sandbox removes what is left.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from itertools import count
from pathlib import Path
from typing import Final

_KEEPER: Final = """
declare -A left
while IFS= read -r -d '' said; do
  case $said in
    *' '*) left[${said%% *}]=${said#* } ;;
    *) unset "left[$said]" ;;
  esac
done
end=$((SECONDS + 20))
while [ "${#left[@]}" -gt 0 ] && [ "$SECONDS" -lt "$end" ]; do
  for name in "${!left[@]}"; do
    path=${left[$name]}
    case $name in
      group-*) for group in "$path"/*/ "$path"; do kill -9 $(<"$group/cgroup.procs"); rmdir -- "$group"; done ;;
      *) rm -rf -- "$path" ;;
    esac
    [ -e "$path" ] || unset "left[$name]"
  done
  [ "${#left[@]}" -eq 0 ] || sleep 0.05
done
"""
"""A shell's program: it is told `NAME PATH` of what there is, and `NAME` of what is there no more, each ended by a NUL."""
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_END_S: Final = 30.0
"""Seconds that a keeper with nothing left has to end; milliseconds are usual."""


class Kept:
    """One thing that the keeper removes if we are killed. Made by `kept_folder` and `kept_group`."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        _keepers.hold(name, path)

    def let_go(self) -> None:
        """It is removed, or somebody else's matter; safe to call twice."""
        _keepers.let_go(self._name)


def kept_folder(path: Path) -> Kept:
    """Have a folder removed, with all that is in it, if we are killed."""
    return Kept(f"folder-{next(_numbers)}", path)


def kept_group(path: Path) -> Kept:
    """Have a control group removed if we are killed."""
    return Kept(f"group-{next(_numbers)}", path)


class _Keepers:
    """The keeper while there is something to keep; used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, name: str, path: Path) -> None:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/bash", "-pc", _KEEPER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C reaches us and not it
                    bufsize=0,
                )
            self._names.add(name)
            self._say(f"{name} {path}")

    def let_go(self, name: str) -> None:
        with self._lock:
            if name not in self._names or self._process is None:
                return
            self._names.discard(name)
            self._say(name)
            if not self._names:
                process, self._process = self._process, None
                assert process.stdin is not None  # noqa: S101 - for the type checker; it is a pipe
                process.stdin.close()
                process.wait(_END_S)

    def _say(self, said: str) -> None:
        assert self._process is not None  # noqa: S101 - for the type checker; both callers looked
        assert self._process.stdin is not None  # noqa: S101 - for the type checker; it is a pipe
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            self._process.stdin.write(os.fsencode(said) + b"\0")


_numbers: Final = count()
_keepers: Final = _Keepers()
