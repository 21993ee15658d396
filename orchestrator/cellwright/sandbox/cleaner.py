"""What is removed when we are killed: a cleaner, a shell that outlives us, does it.

Flows in: folders of sockets, control groups, and engines' sandboxes, while they are ours. Flows out: nothing, as long as we remove
them ourselves; after a SIGKILL they are gone within five seconds. Decided here: one cleaner for all that a process has, started
with the first and ended with the last; its leash is a pipe, whose end tells it that we are gone; and how long an engine's sandbox,
which is not below our process, has to stop by itself. Other processes are not its matter, as they end with us (`launch`), but it
kills what a group still has. Where it is killed as well, the next sandbox removes what is left, but for engines' sandboxes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

_CLEANER: Final = """
declare -A left
while IFS= read -r -d '' said; do
  case $said in
    *' '*) left[${said%% *}]=${said#* } ;;
    *) unset "left[$said]" ;;
  esac
done
for name in "${!left[@]}"; do
  what=${left[$name]}
  case $name in
    sandbox-*)
      { timeout "$0" tail --pid="${what%% *}" -s 0.1 -f /dev/null; eval "${what#* }"; } &
      unset "left[$name]" ;;
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
wait
"""
"""A shell's program: it is told `NAME PATH` of what there is, for a sandbox `NAME PID COMMAND`, and `NAME` of what is there no more,
each ended by a NUL. `$0` are the seconds that a sandbox's process has."""
_GRACE_S: Final = 2.5
"""Seconds that a kernel host has to stop by itself, once we are gone."""
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_END_S: Final = 30.0
"""Seconds that a cleaner with nothing left has to end; milliseconds are usual."""


class Removal:
    """What the cleaner does about one thing if we are killed. Made by the functions below."""

    def __init__(self, kind: str, what: str) -> None:
        self._name = f"{kind}-{next(_numbers)}"
        _cleaners.hold(self._name, what)

    def call_off(self) -> None:
        """It is removed, or somebody else's matter; safe to call twice."""
        _cleaners.let_go(self._name)


def folder_removal(path: Path) -> Removal:
    """Have a folder removed, with all that is in it, if we are killed."""
    return Removal("folder", str(path))


def group_removal(path: Path) -> Removal:
    """Have a control group removed if we are killed."""
    return Removal("group", str(path))


def sandbox_removal(pid: int, command: Sequence[str], environment: Mapping[str, str]) -> Removal:
    """Have an engine's sandbox removed if we are killed.

    Args:
        pid: The process that ends when the sandbox has stopped by itself.
        command: Removes it, stopped or not.
        environment: The command's, all of it.
    """
    words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *command]
    return Removal("sandbox", f"{pid} {shlex.join(words)}")


class _Cleaners:
    """The cleaner while there is something to remove; used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, name: str, what: str) -> None:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/bash", "-pc", _CLEANER, str(_GRACE_S)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,  # a Ctrl-C reaches us and not it
                    bufsize=0,
                )
            self._names.add(name)
            self._say(f"{name} {what}")

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
_cleaners: Final = _Cleaners()
