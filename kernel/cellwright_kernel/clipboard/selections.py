"""The clipboard as the X server has it: a text of ours that other programs paste, and the text that they have copied.

Flows in: the display's name; texts to own, and wishes to read. Flows out: the texts of others. Decided here: one thread
does it with an X connection of its own, so that there is no helper process that could die; and a text that another
program copied is remembered, and owned in that program's place once it has ended, since it would be lost otherwise.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal

from Xlib import X, Xatom
from Xlib.display import Display
from Xlib.error import ConnectionClosedError, DisplayError, XError
from Xlib.ext import xfixes

from cellwright_kernel.clipboard.errors import MOST_BYTES, ClipboardError, DisplayEnded
from cellwright_kernel.clipboard.link import Link
from cellwright_kernel.clipboard.reading import ANSWER_S, Reading
from cellwright_kernel.clipboard.serving import Serving

Name = Literal["CLIPBOARD", "PRIMARY"]

_LOST: Final = (ConnectionClosedError, DisplayError, OSError)
_IDLE_S: Final = 60.0
_READS: Final = 3
"""How often a text is read while its owners change; in a cell they do so once, when a program copies just then."""
_OWNER_CHANGES: Final = (
    xfixes.XFixesSetSelectionOwnerNotifyMask
    | xfixes.XFixesSelectionWindowDestroyNotifyMask
    | xfixes.XFixesSelectionClientCloseNotifyMask
)


@dataclass(frozen=True)
class _Held:
    """A text that we own, or shall own when the program that does has ended."""

    text: bytes
    since: int = X.CurrentTime
    is_ours: bool = True


class Selections:
    """The clipboard and the primary selection of one display; safe to use from any thread.

    Args:
        display: The display's name, such as `:1`.
    """

    def __init__(self, display: str) -> None:
        self._name = display
        self._held: dict[Name, _Held] = {}
        self._thread: _Thread | None = None

    def start(self) -> None:
        """Connect, and own again what was owned when the last connection ended; returns when others can paste.

        Raises:
            ClipboardError: the display does not answer.
        """
        self.stop()
        try:
            thread = _Thread(Display(self._name), self._held)
            thread.start()
            self._thread = thread
            for name, held in tuple(self._held.items()):
                self.write(name, held.text).result(2 * ANSWER_S)
        except _LOST as error:  # also that it does not answer in time
            raise self._lost(str(error) or "it is busy") from None

    def stop(self) -> None:
        """End the connection; what was owned is kept for the next one. Safe to call twice."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def write(self, name: Name, text: bytes) -> Future[None]:
        """Own a selection with a text in UTF-8; done when others can paste it."""
        if len(text) > MOST_BYTES:
            raise ClipboardError(f"The text is longer than {MOST_BYTES >> 20} MiB. The clipboard is as it was.")
        return self._do(lambda thread: thread.own(name, text))

    def read(self, name: Name) -> Future[bytes]:
        """Get the text of a selection, in UTF-8; an empty one when there is none. It fails with a `ClipboardError`."""
        return self._do(lambda thread: thread.read(name))

    def _do(self, job: Callable[[_Thread], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if self._thread is None or not self._thread.do(job, future):
            future.set_exception(self._lost("it has ended"))
        return future

    def _lost(self, why: str) -> DisplayEnded:
        return DisplayEnded(f"There is no clipboard: the display {self._name} does not answer ({why}).")


class _Thread:
    """Serves one connection until it ends."""

    def __init__(self, display: Display, held: dict[Name, _Held]) -> None:
        self._held = held
        self._jobs: deque[tuple[Callable[[_Thread], Any], Future[Any]]] = deque()
        self._taking = threading.Lock()
        self._is_over = False
        self._is_remembering = self._is_orphaned = False
        self._wake_reader, self._wake_writer = os.pipe()
        self._link = link = Link(display, self._wake_reader, self._take)
        self._serving = Serving(link, self._owned)
        self._reading = Reading(link)
        self._selections: dict[Name, int] = {"CLIPBOARD": link.atom("CLIPBOARD"), "PRIMARY": Xatom.PRIMARY}
        self._moment: int = X.CurrentTime
        self._thread = threading.Thread(target=self._serve, name="clipboard", daemon=True)

    def start(self) -> None:
        display = self._link.display
        if display.query_extension(xfixes.extname):
            display.xfixes_query_version()
            display.xfixes_select_selection_input(self._link.window, self._selections["CLIPBOARD"], _OWNER_CHANGES)
        self._thread.start()

    def stop(self) -> None:
        self._link.is_stopping = True
        with self._taking:
            if not self._is_over:
                os.write(self._wake_writer, b"\0")
        self._thread.join(2 * ANSWER_S)

    def do(self, job: Callable[[_Thread], Any], future: Future[Any]) -> bool:
        """Have the thread do a job; False when it has ended."""
        with self._taking:
            if self._is_over:
                return False
            self._jobs.append((job, future))
            os.write(self._wake_writer, b"\0")
        return True

    # What follows runs in the thread alone.

    def own(self, name: Name, text: bytes) -> None:
        selection = self._selections[name]
        since = self._now()
        self._held[name] = _Held(text, since)
        self._link.window.set_selection_owner(selection, since)
        if self._link.display.get_selection_owner(selection) != self._link.window:
            del self._held[name]
            raise ClipboardError("Another program took the clipboard at the same moment. Write once more.")
        if name == "CLIPBOARD":
            self._is_remembering = False

    def read(self, name: Name) -> bytes:
        self._link.display.sync()  # the server's word that a program has ended may be on its way
        self._link.pump(0.0)
        if self._is_orphaned:
            self._adopt()
        owned = self._owned(self._selections[name])
        if owned is not None:
            return owned[0]
        return self._remembered() if name == "CLIPBOARD" else self._reading.text(self._selections[name])

    def _serve(self) -> None:
        try:
            while not self._link.is_stopping:
                # a job may have come, and its waking been taken, while the text of another program was read
                self._link.pump(0.0 if self._jobs else _IDLE_S)
                while self._jobs and not self._link.is_stopping:
                    self._work(*self._jobs.popleft())
                if self._is_remembering:
                    with contextlib.suppress(ClipboardError, XError, ValueError):
                        self._remembered()
                if self._is_orphaned:
                    self._adopt()
        except _LOST:  # the display has ended; who starts it again starts this again
            return
        finally:
            self._end()

    def _end(self) -> None:
        with self._taking:
            self._is_over = True
            for _, future in self._jobs:
                if future.set_running_or_notify_cancel():  # whoever asked may have given up
                    future.set_exception(DisplayEnded("The display has ended, and with it the clipboard."))
        with contextlib.suppress(*_LOST):
            self._link.display.close()
        for end in (self._wake_reader, self._wake_writer):
            os.close(end)

    def _work(self, job: Callable[[_Thread], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(job(self))
        except ClipboardError as error:
            future.set_exception(error)
        except _LOST as error:
            future.set_exception(DisplayEnded(f"The display has ended, and with it the clipboard ({error})."))
            raise
        except Exception as error:
            future.set_exception(ClipboardError(f"The clipboard has failed: {error!r}"))

    def _remembered(self) -> bytes:
        """Read what another program has copied, and remember it before it is told: its program may hang or end right after.

        Where another one copied meanwhile, that is read instead. Word that a program has copied may come only while it is
        read: then it is read once more, if it is still there.
        """
        self._is_remembering = False
        selection = self._selections["CLIPBOARD"]
        text = b""
        for _ in range(_READS):
            owner = self._link.display.get_selection_owner(selection)
            text = self._reading.text(selection)
            if self._link.display.get_selection_owner(selection) == owner:
                if text:
                    self._held["CLIPBOARD"] = _Held(text, is_ours=False)
                break
        return text

    def _adopt(self) -> None:
        self._is_orphaned = False
        held = self._held.get("CLIPBOARD")
        if held is not None and self._link.display.get_selection_owner(self._selections["CLIPBOARD"]) == X.NONE:
            with contextlib.suppress(ClipboardError):
                self.own("CLIPBOARD", held.text)

    def _owned(self, selection: int) -> tuple[bytes, int] | None:
        for name, held in self._held.items():
            if self._selections[name] == selection and held.is_ours:
                return held.text, held.since
        return None

    def _now(self) -> int:
        """The server's time, which an owner must state; a change of a property of ours brings it."""
        self._moment = X.CurrentTime
        self._link.window.change_property(self._link.atom("CELLWRIGHT_TIME"), Xatom.STRING, 8, b"")
        self._link.wait(lambda: self._moment != X.CurrentTime, ANSWER_S)
        return self._moment

    def _take(self, event: Any) -> None:
        with contextlib.suppress(XError):  # the window that it is about is gone
            self._handle(event)

    def _handle(self, event: Any) -> None:
        if event.type == X.SelectionRequest:
            self._serving.answer(event)
        elif event.type == X.SelectionNotify:
            self._reading.take(event)
        elif event.type == X.PropertyNotify:
            if event.atom == self._link.atom("CELLWRIGHT_TIME"):
                self._moment = event.time
            self._reading.take(event)
            self._serving.go_on(event)
        elif event.type == X.SelectionClear:
            self._lose(event.atom)
        elif isinstance(event, xfixes.SelectionNotify):
            self._take_change(event)

    def _lose(self, selection: int) -> None:
        if self._link.display.get_selection_owner(selection) == self._link.window:
            return  # it was lost before, and is ours again
        for name, held in tuple(self._held.items()):
            if self._selections[name] == selection and held.is_ours:
                del self._held[name]

    def _take_change(self, event: Any) -> None:
        """The clipboard has another owner, or its owner has ended."""
        owner = self._link.display.get_selection_owner(event.selection)
        if owner == self._link.window:
            return
        if event.sub_code == xfixes.XFixesSetSelectionOwnerNotify:
            self._held.pop("CLIPBOARD", None)
            self._is_remembering = owner != X.NONE
        else:
            self._is_orphaned = True
