"""Jupyter's requests -> requests to Node, and the replies.

Flows in: requests on the shell and control channels, SIGINT. Flows out: busy, the cell's messages, `execute_reply`, idle;
each with the request's header as parent. Decided here: which cell an interrupt is for: the one that was being executed
when it came; and that a failed cell never makes the kernel throw away the next request.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final

from ipykernel._version import kernel_protocol_version
from jupyter_client.session import extract_header
from traitlets import Any as AnyTrait

from cellwright_kernel.javascript.node import Message, Node
from cellwright_kernel.javascript.publisher import Posted, Publisher
from cellwright_kernel.shell_channel import Answering

_SCREEN: Final = re.compile(r"\bscreen\b")


@dataclass(frozen=True, slots=True)
class _Running:
    cell: Posted
    answer: asyncio.Future[Message | None]


class JavaScriptKernel(Answering):
    """The kernel's side of Jupyter's messages."""

    implementation = "cellwright"
    implementation_version = "1"
    banner = ""
    language_info = {  # noqa: RUF012 - ipykernel's form
        "name": "javascript",
        "mimetype": "application/javascript",
        "file_extension": ".js",
        "version": "",
    }

    node: Node = AnyTrait()
    publisher: Publisher = AnyTrait()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._serial = self._attached = 0
        self._running: _Running | None = None
        self._stopping = asyncio.Event()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody asked for its end."""
        return self._stopping.is_set()

    async def stopped_or(self, other: asyncio.Event) -> None:
        """Wait until somebody asks for its end, or the other event comes."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._stopping, other)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def interrupt(self) -> None:
        """Stop the running cell; nothing when none runs."""
        if self._running is not None:
            self.node.interrupt(self._running.cell.serial)

    def coming(self) -> None:
        """Have Node wake up while the request is being read and checked."""
        self.node.wake()

    def before(self, request: dict[str, Any]) -> None:
        """Have Node compute while busy is being said (0.1 ms), unless something has to be there first."""
        code = request["content"].get("code")
        if request["header"].get("msg_type") == "execute_request" and not _SCREEN.search(str(code)):
            self._begin(request)

    def _begin(self, parent: dict[str, Any]) -> None:
        self._serial += 1
        number, name = self._numbered(parent)
        code = str(parent["content"].get("code", ""))
        # first: Node computes while the rest is done, and what it says is read only after
        answer = self.node.ask({"do": "run", "cell": self._serial, "number": name, "code": code})
        cell = Posted(self._serial, number, extract_header(parent))
        self.publisher.open(cell)
        self._running = _Running(cell, answer)

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer for the cell that runs; no answer if Node dies of it."""
        if self._running is None:
            await self.node.screen.begin()
            self._begin(parent)
        assert self._running is not None  # noqa: S101 - for the type checker; it was begun
        cell = self._running.cell
        try:
            status = await self._running.answer
        finally:
            self._running = None
        if status is None:
            return
        reply = {**status, "execution_count": cell.number, "user_expressions": {}, "payload": []}
        self.session.send(stream, "execute_reply", reply, parent, ident=ident)

    def _numbered(self, parent: dict[str, Any]) -> tuple[int, str]:
        """A cell has the number that the kernel host says; what an attached client sends, a count and names of its own."""
        note = parent["metadata"].get("cellwright")
        number = note.get("cell") if isinstance(note, dict) else None
        if isinstance(number, int):
            return number, f"{number}"
        self._attached += 1
        return self._attached, f"attached-{self._attached}"

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        """What may stand at the cursor."""
        answer = await self.node.ask({"do": "complete", "code": code, "at": cursor_pos})
        none = {"matches": [], "cursor_start": cursor_pos, "cursor_end": cursor_pos}
        return {"status": "ok", "metadata": {}, **(answer or none)}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Whether code is whole, wants more lines, or is wrong."""
        return await self.node.ask({"do": "is_complete", "code": code}) or {"status": "unknown"}

    async def do_inspect(self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> Any:
        """Nothing is known of names."""
        del code, cursor_pos, detail_level, omit_sections
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}

    async def shutdown_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer, and end."""
        content = {"status": "ok", "restart": bool(parent["content"].get("restart"))}
        self.session.send(stream, "shutdown_reply", content, parent, ident=ident)
        self.session.send(self.iopub_socket, "shutdown_reply", content, parent)
        self._stopping.set()

    @property
    def kernel_info(self) -> dict[str, Any]:
        """What kernel_info_request is answered with."""
        return {
            "protocol_version": kernel_protocol_version,
            "implementation": self.implementation,
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": self.banner,
            "help_links": [],
            "supported_features": [],
        }

    def _send_interrupt_children(self) -> None:
        self.interrupt()

    # What the stock kernel does around a cell and this one does not.

    def set_parent(self, ident: Any, parent: Any, channel: str = "shell") -> None:
        """Only control requests are remembered: whose output is whose, the publisher knows."""
        if channel == "control":
            super().set_parent(ident, parent, channel)

    def pre_handler_hook(self) -> None:
        """SIGINT has one handler for good."""

    def post_handler_hook(self) -> None:
        """As above."""
