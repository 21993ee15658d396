"""A person at a terminal: a line is asked for, and comes.

Flows in: what is shown before it. Flows out: the line. Decided here: who counts as being there: standard input and standard error are
both a terminal; that one thing is asked at a time; that code is shown whole before it is approved;
and that what was typed before the question is no answer to it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from typing import Final, cast

from rich.cells import chop_cells
from rich.console import Console
from rich.text import Text

from cellwright.asking import Approval, NotAsked, Pending, Question
from cellwright.plain import barred, plain

_LINE_BYTES: Final = 4096
"""Longest line that a terminal gives."""
_FILE: Final = "  screen: "
"""Before the name of a file, which stays in one piece."""
_PUSHED: Final = object()
"""In a line's place: something else is asked first."""


def is_there() -> bool:
    """Whether a person can be asked at this process's terminal."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty() and _is_in_front()
    except ValueError:  # closed
        return False


def _is_in_front() -> bool:
    """Whether the terminal is this process's to ask at: one that a shell runs in the background would be stopped for it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:  # it is a terminal, and stops nobody
        return True


class Terminal:
    """Asks whoever sits there. Made where `is_there`."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._one = asyncio.Lock()
        self._push: asyncio.Future[None] | None = None
        self.screens: Callable[[str], str] | None = None
        """Returns the file that holds a screenshot of the run, by its hash; absent: none is named."""

    async def line(self, prompt: str, *, before: str = "") -> str | None:
        """Show something and return the line that is typed then, without its end; None: the input has ended.

        Args:
            prompt: Stands where is typed.
            before: Stands above, a stranger's words perhaps.
        """
        while True:
            async with self._one:
                typed = await self._asked(prompt, before)
            if typed is not _PUSHED:
                return cast("str | None", typed)

    async def now(self, prompt: str, *, before: str = "") -> str | None:
        """The same, at once: what is being asked is asked again after it."""
        if self._push is not None and not self._push.done():
            self._push.set_result(None)
        async with self._one:
            typed = await self._asked(prompt, before)
        return cast("str | None", None if typed is _PUSHED else typed)

    async def _asked(self, prompt: str, before: str) -> object:
        """Return the line, None, or that something else is asked first."""
        if not _is_in_front():
            return None
        try:
            if before:
                shown = folded(plain(before), columns(self._console))
                self._console.print(Text(f"\n{shown}", style="bold yellow"), soft_wrap=True)
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
            self._console.print(Text(prompt, style="bold"), end="", soft_wrap=True)
        except (OSError, termios.error):  # its window was closed
            return None
        fd, loop = sys.stdin.fileno(), asyncio.get_running_loop()
        self._push = push = loop.create_future()
        readable = asyncio.Event()
        loop.add_reader(fd, readable.set)
        reading = asyncio.ensure_future(readable.wait())
        try:
            await asyncio.wait({reading, push}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(fd)
            reading.cancel()
        return _read(fd) if readable.is_set() else _PUSHED

    async def ask(self, question: Question) -> str | None:
        """See `Asker.ask`."""
        who = "The model" if question.cell is None else f"Cell {question.cell}"
        typed = await self.line("answer: ", before=f"{who} asks: {barred(question.text)}")
        if typed is None:
            raise NotAsked("The person at the terminal has left.")
        return typed

    async def approve(self, pending: Pending) -> Approval:
        """See `Approver.approve`."""
        what = f"Cell {pending.cell} ({pending.language}) waits for your approval."
        if pending.effect is not None:
            who = "Something" if pending.cell is None else f"Cell {pending.cell} ({pending.language})"
            what = f"{who} is about to send: {pending.effect}"
        code = barred(f"\n{pending.code}") if pending.code else ""
        screen = f"\n{_FILE}{self.screens(pending.screen)}" if pending.screen and self.screens else ""
        shown = f"{what} {pending.rule}{code}{screen}"
        typed = await self.line(f"{'execute' if pending.effect is None else 'send'} it? [y, or why not] ", before=shown)
        if typed is None:
            raise NotAsked("The person at the terminal has left.")
        if typed.strip().lower() in {"y", "yes"}:
            return Approval(approved=True)
        reason = typed.strip()
        return Approval(approved=False, reason=None if reason.lower() in {"", "n", "no"} else reason)


def columns(console: Console) -> int:
    """Return how wide the terminal itself is; rich takes one that is `dumb` for 80 columns."""
    try:
        return os.get_terminal_size(console.file.fileno()).columns or console.width
    except (OSError, ValueError):
        return console.width


def folded(text: str, width: int) -> str:
    """Return text in which no line is continued where a line of ours begins, as a terminal of this width would have it."""
    lines = text.expandtabs().split("\n")
    return "\n".join(
        line if line.startswith(_FILE) else "\n  : ".join(chop_cells(line, max(1, width - 4)) or [""]) for line in lines
    )


def _read(fd: int) -> str | None:
    try:
        data = os.read(fd, _LINE_BYTES)  # the terminal gives whole lines
    except OSError:
        return None
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None
