"""SIGINT -> the running cell stops, and whatever would keep it from being answered; nothing else does.

Flows in: SIGINT at any moment. Flows out: KeyboardInterrupt inside the cell's own code, or the cancelling of a cell that
awaits; and KeyboardInterrupt in leftover code that holds the event loop. Decided here: when each is right. Python code of
the cell is on the stack: raise there. The cell waits for something: cancel it. No cell runs: do nothing, so that a late
interrupt never hits the next cell. A message is being written: wait until it is whole. A process is being forked: wait
until that is done, or until it is asked for again. Leftover code, whichever cell began it, is left alone as long as the
loop gets round to the cell; see loop_watch.py.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from types import CoroutineType, FrameType
from typing import Any

from cellwright_kernel.iopub import Gate
from cellwright_kernel.python.errors import describe, is_own_file
from cellwright_kernel.python.loop_watch import LoopWatch
from cellwright_kernel.python.origin import CURRENT, current_origin
from cellwright_kernel.python.signal_bell import SignalBell

_HELD = "stopped because it held the kernel's event loop when a cell was to end"
_NOT_BEGUN = "Nothing of this cell ran: code that cell {} had left running held the kernel, and was interrupted"
_EXEC = "_fork_exec"
_FORKS = ((os, "fork"), (os, "forkpty"), (subprocess, _EXEC))
"""Where Python forks with hooks around it; the last one does so for a `preexec_fn`."""
_FORK_S = 0.2
"""A fork takes 1 ms or a few, and the deadline's ladder repeats its interrupts after 0.4 s."""
_CALL = asyncio.Handle._run.__code__


class Interrupts:
    """Owns the handler of SIGINT for the life of the kernel.

    Only while `open` may it raise into a cell: code of the model runs then, or code of ours that works on its values.
    Whoever closes it does so by a plain assignment within the `try` that catches what it raises: between the two Python
    looks for no signal, so nothing escapes.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._task: asyncio.Task[Any] | None = None
        self._came_early = False
        self._why_early = ""
        self._struck: tuple[float, int] | None = None
        """When leftover code was last stopped while no cell ran, and the number of the cell that had begun it."""
        self._was_in_cell = False
        """Whether the last KeyboardInterrupt was raised in the cell, not in leftover code."""
        self._is_to_cancel = False
        """Whether the cell was waiting when it was interrupted, and has not been told yet."""
        self._is_unfelt = False
        """Whether it struck a finalizer of the cell's, from which no exception comes out."""
        self._is_told = False
        """Whether the running cell was told that an interrupt struck where nothing comes out; it is repeated fast."""
        self._is_reporting = False
        """While what a finalizer raised is being told."""
        self._fork = ""
        """The name of the fork whose call is on the stack; no interrupt comes out of there."""
        self._put_off_in = 0
        """The process that got one meanwhile: a child takes the mark along, but the interrupt is its parent's."""
        self._put_off_at = 0.0
        self._pid = os.getpid()
        self._main = threading.get_ident()
        self.open = False
        self.interrupted = False
        """Whether the running cell has been interrupted."""
        self.was_struck = False
        """Whether leftover code was stopped for the running cell's sake."""

    def install(self, loop: asyncio.AbstractEventLoop, watch_loop: asyncio.AbstractEventLoop) -> None:
        """Take SIGINT.

        Args:
            loop: The one that cells run in.
            watch_loop: That of another thread; it is never held up.
        """
        self._loop = loop
        self._watch = LoopWatch(loop, watch_loop, lambda: self._is_unfelt)
        self._bell = SignalBell(watch_loop, signal.SIGINT)
        sys.unraisablehook = self._on_unraisable
        self._hold_while_forking()
        self.keep_installed()

    def keep_installed(self) -> bool:
        """Take SIGINT back; returns whether code of the model had taken it.

        asyncio's own handler is set first and replaced, because it leaves the loop with a descriptor that wakes it: a
        signal that comes just before the loop starts to wait would otherwise be seen when it has waited. A handler,
        unlike an ignored signal, is not inherited by the programs a cell starts.
        """
        is_ours = signal.getsignal(signal.SIGINT) == self._on_signal
        if not is_ours:
            self._watch.take_call()  # it may have been lost
            self._loop.add_signal_handler(signal.SIGINT, _nothing)
            signal.signal(signal.SIGINT, self._on_signal)
        self._bell.hang()
        return not is_ours

    def arm(self, task: asyncio.Task[Any], sent_at: object) -> None:
        """Name the cell that an interrupt is for.

        Args:
            task: It.
            sent_at: When it was asked for; what came for a cell that could not begin is this one's, if it waited then.
        """
        self.interrupted = self.was_struck = self._came_early = self._is_unfelt = self._was_in_cell = False
        self._is_to_cancel = self._is_told = False
        self._task = task
        self._watch.end()
        if self._struck is not None and _seconds(sent_at) < self._struck[0]:
            self._came_early, self._why_early = True, _NOT_BEGUN.format(self._struck[1])

    def begin(self) -> None:
        """Open; an interrupt that came since `arm` counts now."""
        self.open = True
        if self._came_early:
            self.interrupted = True
            why, self._why_early = self._why_early, ""
            raise KeyboardInterrupt(*filter(None, [why]))

    def disarm(self) -> None:
        """The cell is answered: from here on an interrupt has nobody to hit."""
        self._task = None
        self._watch.let_go()

    def _on_signal(self, _signum: int, frame: FrameType | None) -> None:
        self._bell.hear()
        is_in_child = os.getpid() != self._pid
        is_within = self._fork and not (is_in_child and self._fork == _EXEC)  # which never comes back there
        if is_within and self._is_put_off():
            return
        if is_in_child:
            raise KeyboardInterrupt
        if self._gate.held_here():
            self._gate.on_leave = self._deliver_late
        elif self._watch.take_call():
            self._stop_holder(frame)
        else:
            self._interrupt(frame)

    def _is_put_off(self) -> bool:
        """Whether what comes within a fork waits for its end: not when that takes until it is asked for again."""
        now = time.monotonic()
        if self._put_off_in == os.getpid():
            return now - self._put_off_at < _FORK_S
        self._put_off_in, self._put_off_at = os.getpid(), now
        return True

    def _deliver_late(self) -> None:
        self._on_signal(signal.SIGINT, sys._getframe(1))

    def _interrupt(self, frame: FrameType | None) -> None:
        task = self._task
        if task is None:
            if _is_models(frame):
                self._watch.begin(of_cell=False)
            return
        self._watch.begin(of_cell=True)
        if not self.open:
            self._came_early = True
            return
        self.interrupted = True
        if self._is_reporting:  # nothing comes out of there either
            self._is_unfelt = True
        elif _is_executing(task):
            self._was_in_cell, self._is_to_cancel = True, False
            raise KeyboardInterrupt
        else:
            self._is_to_cancel = True
            self._loop.call_soon_threadsafe(self._cancel, task)

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        if task is self._task and self.open and self._is_to_cancel:  # not one that is ending meanwhile
            self._is_to_cancel = False
            task.cancel()

    def _stop_holder(self, frame: FrameType | None) -> None:
        """Stop what holds the loop, unless it is the cell's own code and was told."""
        if self._is_unfelt:
            self._is_unfelt = False
            self._interrupt(frame)
            return
        task, current, origin = self._task, asyncio.current_task(self._loop), current_origin()
        if not (self._watch.is_held() and _is_models(frame)):
            return
        if task is not None and current is task:
            if self._is_to_cancel and _is_executing(task):  # it was about to go on, and does not wait any more
                self._is_to_cancel, self._was_in_cell = False, True
                raise KeyboardInterrupt
            return
        if task is None and origin is not None:
            self._struck = time.time(), origin.number
        if current is None or CURRENT.get(None) is None:  # no task of the model's, which is told of because it fails
            sys.stderr.write(f"Interrupted: {_HELD}.\n{_place(frame)}")
        self._was_in_cell, self.was_struck = False, True
        raise KeyboardInterrupt(_HELD)

    def _hold_while_forking(self) -> None:
        """Put an interrupt off that comes within a fork, until the code that forks goes on.

        Code that forks without end is there nearly all the time, and nothing comes out. What a hook raises is told of
        and dropped, and its locks stay half taken. What is raised while Python warns of a fork beside threads is
        dropped without a word (3.13: `PyErr_WarnFormat(...); PyErr_Clear()`, in the parent, after its hooks; from 3.12
        on), and the cell goes on for ever. A hook that hangs is another matter: the next interrupt is raised there, and the
        one that was put off comes out of the fork. Hooks of ours could not tell when a fork begins and ends: before it those
        that a cell registers run first, after it last, and then the warning.

        The warning is of this module now, so it is not shown unless a cell asks for those of libraries: the threads
        that it speaks of are the kernel's, whose locks are made anew in a child.
        """
        for module, name in _FORKS:
            setattr(module, name, self._holding(name, getattr(module, name)))

    def _holding(self, name: str, native: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(native)
        def fork(*arguments: Any) -> Any:
            if threading.get_ident() != self._main:  # signals are handled in the main thread alone
                try:
                    return native(*arguments)
                finally:
                    self._leave_to_child()
            self._fork = name
            try:
                return native(*arguments)
            finally:
                self._fork = ""
                self._leave_to_child()
                put_off_in, self._put_off_in = self._put_off_in, 0
                if put_off_in == os.getpid():
                    self._on_signal(signal.SIGINT, sys._getframe())

        return fork

    def _leave_to_child(self) -> None:
        """A forked child has Python's own handler, which leaves no frame in what a worker prints of its end."""
        if os.getpid() != self._pid and signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_unraisable(self, what: sys.UnraisableHookArgs) -> None:
        is_ours = self._was_in_cell and issubclass(what.exc_type, KeyboardInterrupt)
        if not (is_ours and self._is_told):
            self._is_reporting = True
            try:
                sys.stderr.write(_unraisable_text(what))
            finally:
                self._is_reporting = False
        if is_ours:
            self._is_unfelt = self._is_told = True


def _unraisable_text(what: sys.UnraisableHookArgs) -> str:
    """As Python puts it, with the model's own frames."""
    about = what.err_msg or "Exception ignored in"
    if what.object is not None:
        about = f"{about}: {_shown(what.object)}"
    lines = describe(what.exc_value).lines if what.exc_value is not None else (what.exc_type.__name__,)
    return "\n".join((about, *lines, ""))


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} object; its repr() failed>"


def _nothing() -> None:
    """What asyncio calls besides."""


def _seconds(moment: object) -> float:
    """A message's date, which is a `datetime` or text, whoever sent it; endlessly late if it has none."""
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return math.inf


def _is_executing(task: asyncio.Task[Any]) -> bool:
    """Whether its coroutine is on the stack.

    To be the current task is not enough: that it still is while asyncio has its next turn put down, and an exception
    there would leave it without one, for ever.
    """
    coroutine = task.get_coro()
    return isinstance(coroutine, CoroutineType) and coroutine.cr_running


def _is_models(frame: FrameType | None) -> bool:
    """Whether code of the model is on the stack, or the loop has called something compiled, such as `time.sleep`."""
    if frame is not None and frame.f_code is _CALL:
        return frame.f_lineno != _CALL.co_firstlineno  # there the callback is not called yet, and would be lost
    return _own(frame) is not None


def _own(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the model's code."""
    while frame is not None and not is_own_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _place(frame: FrameType | None) -> str:
    own = _own(frame)
    return "" if own is None else f'  File "{own.f_code.co_filename}", line {own.f_lineno}, in {own.f_code.co_name}\n'
