"""JavaScript cells of an exported run: one Node, in the process that runs the notebook or the script.

Flows in: code. Flows out: what it said, shown as the process shows things; an error as an exception. Decided here: it is the
Node of the JavaScript kernel, with all its names, and it has an event loop of its own in a thread; what it says is shown by
whoever waits for the cell, in order; an interrupt of whoever waits is the cell's.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from cellwright_kernel.python.images import from_bytes
from cellwright_kernel.runtime.show import PlainShow
from cellwright_kernel.screen.loop_thread import LoopThread

if TYPE_CHECKING:
    from cellwright_kernel.javascript.node import Message, Node
    from cellwright_kernel.javascript.publisher import Publisher

_SCREEN: Final = re.compile(r"\bscreen\b")
_END_S: Final = 10.0
_STOP_S: Final = 5.0

_Said = tuple[str, dict[str, Any]]
"""Kind and content of a Jupyter message."""


class JavaScriptError(Exception):
    """A JavaScript cell failed; the message is its error with the lines that it came from."""

    def _render_traceback_(self) -> list[str]:
        """How IPython shows it: where in Python it was called from says nothing."""
        return str(self).split("\n")


class JavaScript:
    """The JavaScript cells of this process; Node starts with the first of them.

    Args:
        show: Shows what they say.
    """

    def __init__(self, show: PlainShow) -> None:
        self._show = show
        self._thread = LoopThread("javascript")
        self._node: Node | None = None
        self._publisher: Publisher | None = None
        self._serials = itertools.count(1)
        self._take: Callable[[_Said], None] = self._show_one

    async def run(self, code: str) -> None:
        """Execute a cell, and return once it has ended.

        Raises:
            JavaScriptError: It failed.
        """
        loop, said, serial = asyncio.get_running_loop(), asyncio.Queue[_Said | None](), next(self._serials)

        def take(one: _Said | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile, and with it whoever would be told
                loop.call_soon_threadsafe(said.put_nowait, one)

        self._take = take
        executing = self._thread.submit(self._execute(serial, code))
        executing.add_done_callback(lambda _: take(None))
        try:
            while (one := await said.get()) is not None:
                self._show_one(one)
        except BaseException:
            self._thread.submit(self._interrupt(serial))
            await asyncio.wait({asyncio.wrap_future(executing)}, timeout=_STOP_S)  # the next cell finds it idle
            raise
        finally:
            self._take = self._show_one
        _raise_if_failed(executing.result())

    def close(self) -> None:
        """End Node, if it runs."""
        node, self._node = self._node, None
        if node is not None:
            with contextlib.suppress(TimeoutError):
                self._thread.submit(node.end()).result(_END_S)

    async def _execute(self, serial: int, code: str) -> Message | None:
        from cellwright_kernel.javascript.publisher import Posted  # noqa: PLC0415 - loaded with Node

        node, publisher = await self._started()
        if _SCREEN.search(code):
            await node.screen.begin()
        publisher.open(Posted(serial, serial, {}))
        return await node.ask({"do": "run", "cell": serial, "number": serial, "code": code})

    async def _interrupt(self, serial: int) -> None:
        if self._node is not None:
            self._node.interrupt(serial)

    async def _started(self) -> tuple[Node, Publisher]:
        if self._node is None or self._publisher is None:
            from cellwright_kernel.javascript.node import Node  # noqa: PLC0415 - only where there is JavaScript

            self._publisher = _publisher(self._took)
            self._node = Node(self._publisher)
            await self._node.start()
        return self._node, self._publisher

    def _took(self, said: _Said) -> None:
        self._take(said)

    def _show_one(self, said: _Said) -> None:
        kind, content = said
        if kind == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            print(content["text"], end="", file=stream, flush=True)
        elif kind in {"display_data", "execute_result"}:
            self._show_shown(content["data"], content["metadata"]["cellwright"]["source"])

    def _show_shown(self, data: dict[str, str], source: str) -> None:
        text = data.get("text/plain")
        if text is not None and source == "notice":
            self._show.notice(text)
        elif text is not None:
            self._show.log(text)
        for media_type, encoded in data.items():
            if media_type.startswith("image/"):
                self._show.picture(from_bytes(base64.b64decode(encoded)))


def _publisher(take: Callable[[_Said], None]) -> Publisher:
    from cellwright_kernel.iopub import Gate  # noqa: PLC0415 - only where there is JavaScript
    from cellwright_kernel.javascript.publisher import Publisher  # noqa: PLC0415 - as above

    class Sink:
        """Stands where the socket does."""

        gate = Gate()

        def message(self, kind: str, content: dict[str, Any], _parent: object, _note: object) -> None:
            take((kind, content))

    class Singly(Publisher):
        """Sends short texts one by one: nobody takes gathered ones apart here."""

        def _is_gathered(self, serial: int, kind: str, text: str) -> bool:  # noqa: ARG002 - nothing is
            return False

    return Singly(cast("Any", Sink()))


def _raise_if_failed(answer: Message | None) -> None:
    if answer is None:
        raise JavaScriptError("Node has ended, and its variables with it.")
    if answer["status"] != "ok":
        raise JavaScriptError("\n".join(answer.get("traceback") or [f"{answer['ename']}: {answer['evalue']}"]))
