"""Background tasks that failed unseen -> text on stderr of the cell that started them.

Flows in: every asyncio task made in the kernel's loop. Flows out: a sentence and the frames, once, if nobody has asked for
the task's result by the end of a cell. Decided here: when a failure counts as unseen. asyncio itself says so only when the
task is garbage, which a task kept in a variable never is.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Coroutine
from typing import Any

from cellwright_kernel.python import errors
from cellwright_kernel.python.origin import CURRENT, Origin
from cellwright_kernel.python.streams import Writer


class Background:
    """Watches the tasks of one event loop."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._failed: list[tuple[weakref.ref[asyncio.Task[Any]], Origin]] = []

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """See each task that is made from now on."""
        loop.set_task_factory(self._make)  # type: ignore[arg-type]
        loop.set_exception_handler(self._on_exception)

    def tell_failed(self) -> None:
        """Say which tasks have failed and were not asked for their result."""
        failed, self._failed = self._failed, []
        for reference, origin in failed:
            task = reference()
            if task is not None and task._log_traceback:
                task._log_traceback = False
                self._tell(task, origin)

    def _make(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, **options)
        context = options.get("context") or contextvars.copy_context()
        origin = context.get(CURRENT)
        if origin is not None:
            task.add_done_callback(lambda done: self._done(done, origin), context=contextvars.Context())
        return task

    def _done(self, task: asyncio.Task[Any], origin: Origin) -> None:
        if task._log_traceback:
            self._failed.append((weakref.ref(task), origin))

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        task = context.get("task") or context.get("future")
        origin = next((origin for reference, origin in self._failed if reference() is task), CURRENT.get(None))
        if isinstance(error, BaseException) and origin is not None:
            self._write(origin, str(context.get("message", "Error in the event loop")), error)
        else:
            loop.default_exception_handler(context)

    def _tell(self, task: asyncio.Task[Any], origin: Origin) -> None:
        try:
            error = task.exception()
            if error is not None:
                self._write(origin, f"Background task {task.get_name()} ({task.get_coro()!r}) failed", error)
        except KeyboardInterrupt:  # the model's own text of the error held the loop
            self._writer.write(origin, "stderr", f"Background task {task.get_name()} failed; how could not be shown.\n")

    def _write(self, origin: Origin, what: str, error: BaseException) -> None:
        self._writer.write(origin, "stderr", "\n".join((f"{what}:", *errors.describe(error).lines, "")))
