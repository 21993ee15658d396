"""Whether a program that answers no pings has done what was sent to it: all of it is asleep.

Flows in: a process id. Flows out: yes or no, after several looks at its threads in /proc.
Decided here: that every thread counts, that one which computes on its own account does not, and that a program which waits
for something else than events is at work, unless it pauses again and again, as a game's loop does between two looks at its keys.

One thread is not enough: Tcl, for one, has a thread that waits for the X connection and wakes the main one. While that one was
waiting for a processor the main one slept on with keys unread, and 148 of 232 characters were read with the meaning that
their keycodes were given next.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOOKS: Final = 3
_OWN_WORK_S: Final = 0.1
"""Processor time that a thread beside the main one spends before it is taken for one that computes; waking another takes 50 µs."""
_ROUNDS: Final = 8
"""Pauses of a loop after which it has looked at its keys; 0.13 s where it draws 60 pictures a second."""


@dataclass(frozen=True)
class _Thread:
    is_asleep: bool
    """False while it runs or waits for a processor."""
    sleeps: int
    """How often it has gone to sleep."""
    cpu_s: float


class Idleness:
    """What a series of looks at one program has shown."""

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._main = str(pid)
        self._looks: list[dict[str, _Thread]] = []

    def look(self) -> bool:
        """Look once more; True when nothing of it has run for three looks, or it has ended.

        A program that waits for the X server's answer sleeps too, with keys unread. The server answers in turn, so the
        caller asks it for something before each look: the program has its answer then, and runs.
        """
        try:
            self._looks.append({entry.name: _thread(entry) for entry in self._tasks.iterdir()})
        except OSError:
            return not self._tasks.exists()  # ended; or a thread of it has just done so
        recent = self._looks[-_LOOKS:]
        counted = [name for name in recent[-1] if not self._computes(name)]
        rests = all(_rested([look.get(name) for look in recent]) for name in counted)
        return len(recent) == _LOOKS and rests and (self._goes_round() or any(map(self._awaits_events, counted)))

    def _goes_round(self) -> bool:
        first, last = self._looks[0].get(self._main), self._looks[-1].get(self._main)
        return first is not None and last is not None and last.sleeps - first.sleeps >= _ROUNDS

    def _awaits_events(self, name: str) -> bool:
        # poll, select and epoll; not a pause, a child's end or a pipe. Where the kernel does not say, it is believed.
        try:
            where = (self._tasks / name / "wchan").read_text()
        except OSError:
            return True
        return where in ("", "0") or "poll" in where

    def _computes(self, name: str) -> bool:
        first = next(look[name] for look in self._looks if name in look)
        return name != self._main and self._looks[-1][name].cpu_s - first.cpu_s >= _OWN_WORK_S


def _rested(looks: list[_Thread | None]) -> bool:
    return (
        all(look is not None and look.is_asleep for look in looks)
        and len({look and look.sleeps for look in looks}) == 1
    )


def _thread(task: Path) -> _Thread:
    fields = dict(line.partition(":")[::2] for line in (task / "status").read_text().splitlines())
    # after the name in brackets, which may hold anything
    figures = (task / "stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(figures[11]) + int(figures[12])) / os.sysconf("SC_CLK_TCK")
    return _Thread(fields["State"].split()[0] in "SZX", int(fields["voluntary_ctxt_switches"]), cpu_s)
