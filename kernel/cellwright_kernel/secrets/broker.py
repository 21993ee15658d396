"""The secrets' place in the kernel host: what cells wish goes out, what the outside answers is done.

Flows in: wishes of kernels on a Unix socket, one a connection: a line of JSON, `{"use": "type" | "header", "name": ...}`;
and answers through the door. Flows out: questions in the running cell's stream; a line of JSON, `{"text": ...}` or
`{"error": ...}`. Decided here: one is typed at a time; how long the outside is waited for; and that a value is held here only
between its coming and its last key.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, get_args

from cellwright_kernel.secrets.errors import SecretError
from cellwright_kernel.secrets.typist import Typist
from cellwright_kernel.wire import SecretAnswer, SecretAskedEvent, SecretUse

_ANSWER_S: Final = 10.0
_REQUEST_S: Final = 35.0
_NAME_CHARS: Final = 200


class SecretBroker:
    """Answers the kernels with what the outside says, and has it typed.

    Args:
        socket: Where to listen; only this user can reach it.
        names: Which secrets there are.
        ask: Puts a question into the running cell's stream; False when no cell runs.
        typist: Types; absent: there is no desktop.
    """

    def __init__(
        self,
        socket: Path,
        names: Sequence[str],
        ask: Callable[[SecretAskedEvent], bool],
        typist: Typist | None,
    ) -> None:
        self.socket = socket
        self._names = names
        self._ask_outside = ask
        self._typist = typist
        self._server: asyncio.Server | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[SecretAnswer]] = {}
        self._typing = asyncio.Lock()

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, self.socket)

    async def stop(self) -> None:
        """End it; safe to call twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._typist is not None:
            await self._typist.close()

    def answer(self, number: int, said: SecretAnswer) -> bool:
        """Take the outside's answer; False when nobody waits for it."""
        question = self._questions.get(number)
        if question is None or question.done():
            return False
        question.set_result(said)
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError):
            async with asyncio.timeout(_REQUEST_S):
                answer = await self._answered(await reader.readline())
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _answered(self, line: bytes) -> dict[str, str]:
        try:
            use, name = _wish(line, self._names)
            if use == "header":
                return {"text": await self._asked(use, name, None)}
            await self._type(name)
        except SecretError as error:
            return {"error": str(error)}
        except Exception as error:  # X, DevTools or D-Bus; their words hold no value, and are not needed
            return {
                "error": f"The secret could not be typed ({type(error).__name__}). Look at the screen, and try again."
            }
        return {"text": ""}

    async def _type(self, name: str) -> None:
        if self._typist is None:
            raise SecretError("There is no desktop in this session, so nothing can be typed.")
        async with self._typing, self._typist.field() as field:
            await field.type(await self._asked("type", name, field.url))

    async def _asked(self, use: SecretUse, name: str, url: str | None) -> str:
        number = next(self._numbers)
        question: asyncio.Future[SecretAnswer] = asyncio.get_running_loop().create_future()
        self._questions[number] = question
        try:
            if not self._ask_outside(SecretAskedEvent(number=number, use=use, name=name, url=url)):
                raise SecretError("A secret is used while a cell runs, and none does. Use it in a cell's own code.")
            async with asyncio.timeout(_ANSWER_S):
                said = await question
        except TimeoutError:
            raise SecretError("The outside did not answer. Nothing was typed or given. Try again.") from None
        finally:
            del self._questions[number]
        if said.text is None:
            raise SecretError(said.refused or "It was refused.")
        return said.text


def _wish(line: bytes, names: Sequence[str]) -> tuple[SecretUse, str]:
    try:
        request = json.loads(line)
        use, name = request["use"], request["name"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SecretError(f"This is no request for a secret: {error!r}") from None
    if use not in get_args(SecretUse) or not isinstance(name, str) or len(name) > _NAME_CHARS:
        raise SecretError("This is no request for a secret.")
    if name not in names:
        name = name.encode("utf-8", "replace").decode()
        raise SecretError(
            f"There is no secret {name!r} in this session; there are: {', '.join(names)}. Nothing was typed or given. Whoever "
            "starts the session gives one with `--secret NAME`."
        )
    return use, name
