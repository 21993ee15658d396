"""The words on the screen, from a process that reads them.

Flows in: a region. Flows out: words. Decided here: the process starts when something is to be read, answers one request
at a time, is killed when an answer is not waited for any more, and started again when it has ended by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Final

from cellwright_kernel.boxes import Box
from cellwright_kernel.screen.text import Word

_ANSWER_S: Final = 25.0
_LINE_BYTES: Final = 4 * 1024 * 1024


class CannotRead(RuntimeError):
    """The text on the screen could not be read; the message says why."""


class Reading:
    """Whoever reads one display.

    Args:
        display: Its name, such as `:1`.
    """

    def __init__(self, display: str) -> None:
        self._display = display
        self._process: asyncio.subprocess.Process | None = None
        self._asking = asyncio.Lock()

    async def words(self, region: Box | None) -> list[Word]:
        """Return the words on the screen, or in a region of it.

        Raises:
            CannotRead: with the reason.
        """
        request = json.dumps({"region": region}).encode() + b"\n"
        async with self._asking:
            # the first time it may have been idle too long
            line = await self._asked(request) or await self._asked(request)
        if not line:
            raise CannotRead("The text on the screen could not be read: the process that reads it ended. Try again.")
        answer = json.loads(line)
        if "error" in answer:
            raise CannotRead(answer["error"])
        return [Word(text, tuple(box), round(confidence, 2)) for text, box, confidence in answer["words"]]

    async def _asked(self, request: bytes) -> bytes:
        """The answer's line; empty when the process has ended."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                process = self._process or await self._started()
                assert process.stdin is not None  # noqa: S101 - for the type checker; it was asked for
                assert process.stdout is not None  # noqa: S101 - the same
                process.stdin.write(request)
                line = await process.stdout.readline()
        except TimeoutError:
            await self._end()
            raise CannotRead(
                f"The text on the screen was not read within {_ANSWER_S:g} s. Read a region of it."
            ) from None
        except OSError:
            line = b""
        except BaseException:
            await asyncio.shield(self._end())
            raise
        if not line.endswith(b"\n"):
            await self._end()
            return b""
        return line

    async def _started(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cellwright_kernel.screen.reader", self._display),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LINE_BYTES,
            start_new_session=True,  # no interrupt for the cell reaches it
        )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)  # and the program that reads for it
            await process.wait()
