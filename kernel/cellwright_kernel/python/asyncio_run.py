"""`asyncio.run()` inside a cell: on the kernel's own loop, which is running already.

Flows in: a cell's code, as a coroutine. Flows out: the same, able to call `asyncio.run` (and `Runner.run`, and any
loop's `run_until_complete`) in its synchronous parts. Decided here: each stretch of the cell that does not wait runs in
a greenlet of its own. When it calls `asyncio.run`, that greenlet stops, the cell itself awaits the coroutine, and the
greenlet goes on with what came of it. So scripts written for `asyncio.run` work, also with `page`, whose objects belong
to the kernel's loop; and the loop is never entered twice.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from greenlet import getcurrent, greenlet


class _Stretch(greenlet):  # type: ignore[misc]
    """One stretch of a cell between two waits."""


@types.coroutine
def driven(cell: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run a coroutine, stretch by stretch; to be awaited by the cell's background task."""
    go_on: Callable[[Any], Any] = cell.send
    argument: Any = None
    while True:
        stretch = _Stretch(go_on)
        stretch.gr_context = getcurrent().gr_context  # the same context, not a copy
        try:
            got = stretch.switch(argument)
            while not stretch.dead:  # it has called asyncio.run, with what it wants awaited
                try:
                    value = yield from got.__await__()
                except BaseException as error:
                    got = stretch.throw(type(error), error, error.__traceback__)
                else:
                    got = stretch.switch(value)
        except StopIteration as stop:
            return stop.value
        try:
            argument = yield got
            go_on = cell.send
        except BaseException as error:
            argument = error
            go_on = cell.throw


def lets_loop_go_on() -> bool:
    """Whether `asyncio.run`, called here, is awaited by the cell itself, so that the kernel's loop goes on meanwhile."""
    return isinstance(getcurrent(), _Stretch)


def allow_asyncio_run(loop: asyncio.AbstractEventLoop) -> None:
    """Put our `asyncio.run` in place of Python's, which refuses while a loop runs."""
    original_run = asyncio.run
    original_until_complete = loop.run_until_complete
    original_of_runner = asyncio.Runner.run
    original_of_any_loop = asyncio.BaseEventLoop.run_until_complete

    def run(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        stretch = getcurrent()
        if isinstance(stretch, _Stretch):
            return stretch.parent.switch(main)
        return original_run(main, **options)

    def run_until_complete(future: Awaitable[Any]) -> Any:
        stretch = getcurrent()
        if isinstance(stretch, _Stretch):
            return stretch.parent.switch(future)
        return original_until_complete(future)

    def run_of_runner(runner: asyncio.Runner, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
        stretch = getcurrent()
        if isinstance(stretch, _Stretch):
            return stretch.parent.switch(coro)
        return original_of_runner(runner, coro, **options)

    def until_complete_of_any(any_loop: asyncio.BaseEventLoop, future: Any) -> Any:
        stretch = getcurrent()
        if isinstance(stretch, _Stretch) and asyncio.iscoroutine(future):  # a future would belong to the other loop
            return stretch.parent.switch(future)
        return original_of_any_loop(any_loop, future)

    run.__doc__ = original_run.__doc__
    asyncio.run = run
    asyncio.Runner.run = run_of_runner  # type: ignore[method-assign, assignment]
    asyncio.BaseEventLoop.run_until_complete = until_complete_of_any  # type: ignore[method-assign, assignment]
    loop.run_until_complete = run_until_complete  # type: ignore[method-assign, assignment]
