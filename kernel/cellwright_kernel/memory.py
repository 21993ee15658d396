"""The memory that the inside may have, and what became of it.

Flows in: the limit; what the Linux kernel tells of our memory group; how a cell failed. Flows out: how many processes
it has killed, and sentences for the model. Decided here: how much a process of each language may have, and the words.

A process's own limit (RLIMIT_DATA) is the one that is met first by one that grows: code that gets no more can go on,
code that is killed can't. Not RLIMIT_AS: it counts what is only reserved, and Chromium died of 4 GiB of it.
"""

from __future__ import annotations

import os
import re
import weakref
from pathlib import Path
from typing import Final

from cellwright_kernel.processes import NODE_BYTES
from cellwright_kernel.wire import LANGUAGE_NAMES, GroupMemory, Language, MemoryLimit

HEADROOM_BYTES: Final = 128 * 1024**2
"""What a kernel may allow itself beyond its limit, so that it outlives a cell that has used it up; four such cells, in
fact."""
_KILLS: Final = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_EVENTS_BYTES: Final = 4096
"""More than such a file ever has: some lines of a word and a number."""
_NEAR_BYTES: Final = 16 * 1024**2
"""One that was asked for more than is left of it may never have had the very last of it."""


def data_bytes(language: Language, limit: MemoryLimit) -> int:
    """Return the RLIMIT_DATA of a language's kernel and all that it starts."""
    return limit.process_bytes + (NODE_BYTES if language == "javascript" else 0)


class Memory:
    """The memory of this sandbox.

    Args:
        limit: None: there is none, and nothing is ever said.
    """

    def __init__(self, limit: MemoryLimit | None) -> None:
        self._limit = limit
        groups = () if limit is None else (limit.sandbox, limit.browser)
        self._kills = {file: _Kills(file) for group in groups if group is not None for file in group.events}
        self._all_were_browsers = False

    def killed(self) -> int:
        """Return how many processes were killed at the sandbox's limit, or the browser's, since this was asked last.

        It is asked twice a cell: what was killed between two cells, such as a page, must not be told of as the next cell's.
        """
        if self._limit is None or self._limit.sandbox is None:
            return 0
        browser = () if self._limit.browser is None else self._limit.browser.events
        new = {file: kills.new() for file, kills in self._kills.items()}
        killed = sum(new[file] for file in self._limit.sandbox.events)
        self._all_were_browsers = killed == sum(new[file] for file in browser)
        return killed

    def said_of(self, killed: int, language: Language, failure: tuple[str, str] | None, kernel: int) -> str | None:
        """Return what to say of a cell whose kernel lives; None where memory had no part in it.

        Args:
            killed: How many other processes were killed for memory while it ran.
            language: The kernel's.
            failure: The error's name and message, where it failed.
            kernel: The kernel's process id.
        """
        if killed:
            return self.others_killed(killed)
        return self.refused(language, *failure, kernel) if failure else None

    def how_killed(self) -> str:
        """Return how a kernel ended that was killed at the sandbox's limit, as a sentence."""
        return f"It was killed because the {self._reached()}. Files in home, /tmp and /dev/shm count, too."

    def others_killed(self, count: int, *, between: bool = False) -> str:
        """Return what to say of other processes than the kernel that were killed at the sandbox's limit.

        Args:
            count: How many.
            between: Whether that was between two cells.
        """
        who = "a process was" if count == 1 else f"{count} processes were"
        when = "Since the last cell the" if between else "The"
        if (browsers := self._browser_reached()) is not None:
            return f"{when} {browsers}, and {who} killed: of its pages, what had most."
        return (
            f"{when} {self._reached()}, and {who} killed: of what cells started, or of the browser's pages, what had most. "
            "Files in home, /tmp and /dev/shm count, too."
        )

    def refused(self, language: Language, error: str, value: str, kernel: int) -> str | None:
        """Return what to say of a cell that failed since its kernel got no more memory; None where that was not why.

        Args:
            language: The kernel's.
            error: The error's name.
            value: Its message.
            kernel: The kernel's process id.
        """
        is_memory = error.endswith("MemoryError") or (error == "RangeError" and "allocat" in value)
        if self._limit is None or not is_memory:
            return None
        had = f", and has had {shown(peak)}" if language == "python" and (peak := _peak_of(kernel)) else ""
        return (
            f"The {LANGUAGE_NAMES[language]} kernel got no more memory: one process may have {shown(self._limit.process_bytes)} "
            f"here{had}; the memory limit of the whole sandbox is {shown(self._limit.sandbox_bytes)}. "
            "Variables are kept, and what they hold with them: delete what is not needed, or work in parts."
        )

    def _reached(self) -> str:
        assert self._limit is not None  # noqa: S101 - for the type checker; something was killed
        peak = _peak_in(self._limit.sandbox)
        most = f" (peak {shown(peak)})" if peak is not None else ""
        return f"sandbox's memory limit of {shown(self._limit.sandbox_bytes)} was reached{most}"

    def _browser_reached(self) -> str | None:
        """Return the browser's own limit as what was reached; None where it was not, or others were killed besides.

        A peak stays: once both limits have been reached, either may be it.
        """
        if self._limit is None or self._limit.browser is None or not self._all_were_browsers:
            return None
        if not _is_full(self._limit.browser):
            return None
        either = f", or the sandbox's of {shown(self._limit.sandbox_bytes)}" if _is_full(self._limit.sandbox) else ""
        return f"browser's memory limit of {shown(self._limit.browser.most_bytes)} was reached{either}"


class _Kills:
    """How many processes were killed, as one file tells.

    It stays open: each of three files, twice a cell, would cost 40 µs in place of 2.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd: int | None = None
        self._known = 0

    def new(self) -> int:
        """Return how many were killed since this was asked last."""
        known = self._known
        found = _KILLS.search(self._told())
        if found is not None:
            self._known = int(found[1])
        return max(0, self._known - known)

    def _told(self) -> str:
        try:
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                weakref.finalize(self, os.close, self._fd)
            return os.pread(self._fd, _EVENTS_BYTES, 0).decode()
        except OSError:
            return ""


def shown(count: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{count / 1024**3:.3g} GiB" if count >= 1024**3 else f"{count / 1024**2:.0f} MiB"


def _peak_of(pid: int) -> int | None:
    found = re.search(r"^VmHWM:\s*(\d+) kB$", _read(f"/proc/{pid}/status"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _is_full(group: GroupMemory | None) -> bool:
    """Whether it has ever had what it may have, as far as is told."""
    peak = _peak_in(group)
    return group is not None and peak is not None and peak >= group.most_bytes - _NEAR_BYTES


def _peak_in(group: GroupMemory | None) -> int | None:
    told = _read(group.peak).strip() if group is not None and group.peak is not None else ""
    return int(told) if told.isdigit() else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
