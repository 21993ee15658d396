"""An execute_request -> the cell is run, and its reply.

Flows in: requests on the shell channel, SIGINT. Flows out: busy, the cell's messages, `execute_reply`, idle; each with the
request's header as parent. Decided here: a cell is one background task in one context that all cells share, so that
context variables last as variables do. A failed cell never makes the kernel throw away the next request. What a leftover
task does wrong is told under the cell that started it.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from ipykernel._version import kernel_protocol_version
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.session import extract_header
from traitlets import Any as AnyTrait

from cellwright_kernel.python import errors
from cellwright_kernel.python.asyncio_run import allow_asyncio_run
from cellwright_kernel.python.background import Background
from cellwright_kernel.python.completion import complete
from cellwright_kernel.python.errors import Failure
from cellwright_kernel.python.figures import Figures
from cellwright_kernel.python.forked import leave, reap_crowd
from cellwright_kernel.python.interrupts import Interrupts
from cellwright_kernel.python.namespace import Namespace, release_keys
from cellwright_kernel.python.open_dialogs import OpenDialogs
from cellwright_kernel.python.origin import CURRENT, Origin, set_latest
from cellwright_kernel.python.own_asyncio import hold_asyncio
from cellwright_kernel.python.plain_text import clean
from cellwright_kernel.python.shell import CellShell
from cellwright_kernel.python.streams import Writer
from cellwright_kernel.shell_channel import Answering

_NOT_SHOWN = ("The value of the last expression could not be shown; what the cell did before is kept.",)
_SIGINT_TAKEN = (
    "The cell has set a handler of its own for SIGINT. It was replaced at the cell's end, because without the kernel's own "
    "a cell can't be interrupted."
)


class CellKernel(Answering, IPythonKernel):  # type: ignore[misc]
    """The kernel's side of Jupyter's messages."""

    _execute_sleep = 0.0  # the stock kernel sleeps 0.5 ms in each cell, for the sake of a thread we do not have

    debugger_class = AnyTrait()  # a Type trait would import the debugger (70 ms)

    writer: Writer = AnyTrait()
    interrupts: Interrupts = AnyTrait()
    namespace: Namespace = AnyTrait()
    figures: Figures = AnyTrait()
    background: Background = AnyTrait()
    dialogs: OpenDialogs = AnyTrait()

    def __init__(self, **options: Any) -> None:
        """Make the shell, and leave out what the stock kernel adds: debugger, comms."""
        super(IPythonKernel, self).__init__(**options)
        self.shell = CellShell.instance(parent=self, user_ns=self.user_ns, kernel=self)

    def begin(self) -> None:
        """Be ready for the first cell; called once the event loop can be had."""
        self._context = contextvars.copy_context()
        self._attached = 0
        loop = asyncio.get_event_loop()
        self.interrupts.install(loop, self.control_thread.io_loop.asyncio_loop)
        self.background.watch(loop)
        allow_asyncio_run(loop)
        hold_asyncio()

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run one cell and answer."""
        try:
            await self._execute(stream, ident, parent)
        finally:
            self.interrupts.disarm()
            self.shell.headroom.close()

    async def kernel_info_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer what the kernel host asks after it has ended a cell, and what that cell had started."""
        reap_crowd()
        await super().kernel_info_request(stream, ident, parent)

    async def _execute(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        origin = self._origin(parent)
        set_latest(origin)
        self.writer.open(origin)
        self._context.run(CURRENT.set, origin)
        failure = await self._run(parent, origin)
        if self.writer.forked:  # a child that the cell forked and did not end: there is one kernel
            leave(None, self.writer.forked)
        self._context.run(self._tell_what_else_failed)
        if failure is not None:
            release_keys()
            self.writer.message(origin, "error", _content(failure))
        self.writer.close(origin)
        status = {"status": "ok"} if failure is None else {"status": "error", **_content(failure)}
        reply = {**status, "execution_count": origin.number, "user_expressions": {}, "payload": []}
        self.session.send(stream, "execute_reply", reply, parent, ident=ident)

    def _origin(self, parent: dict[str, Any]) -> Origin:
        """A cell has the number that the kernel host says; what an attached client sends, a count and names of its own."""
        note = parent["metadata"].get("cellwright")
        number = note.get("cell") if isinstance(note, dict) else None
        if isinstance(number, int):
            return Origin(number, extract_header(parent), name=f"<cell {number}>")
        self._attached += 1
        return Origin(self._attached, extract_header(parent), name=f"<cell attached-{self._attached}>")

    async def _run(self, parent: dict[str, Any], origin: Origin) -> Failure | None:
        code = str(parent["content"].get("code", ""))
        task = asyncio.get_running_loop().create_task(self._cell(code, origin), context=self._context)
        self.interrupts.keep_installed()
        self.interrupts.arm(task, parent["header"].get("date"))
        try:
            failure = await task
        except asyncio.CancelledError as error:  # cancelled by other code of the model
            failure = errors.describe(errors.as_interrupt(error))
        if self.interrupts.was_struck:
            await asyncio.sleep(0)  # only then it is known that a background task has failed
        return failure

    async def _cell(self, code: str, origin: Origin) -> Failure | None:
        interrupts = self.interrupts  # a plain local: see there on how it is closed
        try:
            interrupts.begin()
            await self._whole_cell(code, origin.name)
            interrupts.open = False
            return None
        except BaseException as error:  # whatever the model's code raises is an output
            interrupts.open = False
            if self.writer.forked:
                leave(error, self.writer.forked)
            is_interrupted = interrupts.interrupted
            await self.dialogs.after_failed_cell(is_interrupted=is_interrupted)
            # what it has drawn is shown with the rest of its output, unless that could take the time it must not have
            self._at_end(
                self.figures.drop if is_interrupted else self.figures.after_cell, "An open figure could not be shown"
            )
            self._at_end(lambda: self.shell.events.trigger("post_execute"), "What was to run after the cell failed")
            return self._described(errors.as_interrupt(error) if is_interrupted else error)

    def _at_end(self, act: Callable[[], None], fault: str) -> None:
        """Do something that works on the model's values; an interrupt ends that alone."""
        interrupts = self.interrupts
        try:
            interrupts.open = True
            act()
            interrupts.open = False
        except BaseException as error:
            interrupts.open = False
            sys.stderr.write(f"{fault}: {str(error) or type(error).__name__}\n")

    def _described(self, error: BaseException) -> Failure:
        """What to tell of an error, unless the model's own text of it takes until an interrupt."""
        interrupts = self.interrupts
        try:
            interrupts.open = True
            failure = errors.describe(error, before=_NOT_SHOWN if self.shell.is_showing else ())
            interrupts.open = False
            return failure
        except BaseException:
            interrupts.open = False
            name = type(error).__name__
            return Failure(name, "", (f"{name}: <its message could not be shown>",))

    def _tell_what_else_failed(self) -> None:
        self.background.tell_failed()
        if self.interrupts.keep_installed():
            self.shell.show.notice(_SIGINT_TAKEN)

    async def _whole_cell(self, code: str, name: str) -> None:
        self.shell.is_showing = False
        code = code.removeprefix("\ufeff")  # what some editors begin a file with
        tree = self.shell.parsed(code, name)
        await self.namespace.bind(code, tree)
        self.shell.events.trigger("pre_execute")
        await self.shell.run_code_of_cell(code, name, tree)
        self.figures.after_cell()  # first: what `%matplotlib inline` does at the event would show them again
        self.shell.events.trigger("post_execute")

    @property
    def kernel_info(self) -> dict[str, Any]:
        """What kernel_info_request is answered with."""
        return {
            "protocol_version": kernel_protocol_version,
            "implementation": "cellwright",
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": "",
            "help_links": [],
            "supported_features": [],
        }

    # What the stock kernel does around a cell and this one does not.

    def pre_handler_hook(self) -> None:
        """SIGINT has one handler for good."""

    def post_handler_hook(self) -> None:
        """As above."""

    def _send_interrupt_children(self) -> None:
        """An attached client's interrupt_request; the stock kernel's would reach Playwright's driver as well."""
        os.kill(os.getpid(), signal.SIGINT)

    def _publish_execute_input(self, code: str, parent: Any, execution_count: int) -> None:
        """Whoever sent the cell knows its code."""

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        """What may stand at the cursor."""
        matches, start = complete(code[:cursor_pos], self.shell.user_ns)
        return {"status": "ok", "matches": matches, "cursor_start": start, "cursor_end": cursor_pos, "metadata": {}}


def _content(failure: Failure) -> dict[str, Any]:
    return {
        "ename": clean(failure.name),
        "evalue": clean(failure.value),
        "traceback": [clean(line) for line in failure.lines],
    }
