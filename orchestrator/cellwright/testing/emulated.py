"""A model server for tests of any agent: the emulator in a thread of its own, so that the agent may be synchronous or not.

Flows in: a script, what is to go wrong, what the server allows. Flows out: an address, and every request that was seen there. Decided
here: how a test says these in one line. What needs the openai library is imported when a server is started.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script

if TYPE_CHECKING:
    from cellwright.emulator.seen import SeenRequest
    from cellwright.emulator.server import Emulator

_ENDS_S: Final = 10.0

Form = Literal["markdown", "yaml"]


@contextmanager
def emulator(
    script: Script | Path | str,
    *,
    form: Form = "markdown",
    faults: Iterable[PlannedFault | str] = (),
    rules: ServerRules | None = None,
) -> Iterator[EmulatedServer]:
    """Serve a script on a free port of this machine while the block lasts.

    Args:
        script: A script, its file, or its text.
        form: How the text is written; a file's suffix says it.
        faults: What goes wrong besides: `"rate_limited@2x3"`, or planned faults.
        rules: What the server allows; absent: what the API does.

    Raises:
        FileMissing: The script cannot be read.
        UsageError: It is not one, or there is no such fault.
        EnvironmentMissing: No port can be listened on.
    """
    from cellwright.emulator.server import Emulator  # noqa: PLC0415 - loads openai: 0.5 s

    served = EmulatedServer(Emulator(_script(script, form, faults), rules=rules))
    served.start()
    try:
        yield served
    finally:
        served.stop()


class EmulatedServer:
    """A running emulator, seen from a test; made by `emulator`."""

    def __init__(self, inner: Emulator) -> None:
        self._emulator = inner
        self._thread = threading.Thread(target=self._run, name="cellwright-emulator", daemon=True)
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._told_to_end: asyncio.Event | None = None

    def __repr__(self) -> str:
        return f"<EmulatedServer of {self._emulator!r}>"

    @property
    def base_url(self) -> str:
        """Address for clients, up to `/v1`: the `base_url` of an OpenAI client, or `OPENAI_BASE_URL`."""
        return self._emulator.base_url

    @property
    def api_key(self) -> str:
        """A key for clients; any other is taken as well."""
        return "emulator"

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """All requests so far, and how each was answered, in the order of the answers."""
        return tuple(self._emulator.seen)

    @property
    def too_fast(self) -> int:
        """Requests that came faster than the rules allow."""
        return self._emulator.rate.violations

    def play(
        self, script: Script | Path | str, *, form: Form = "markdown", faults: Iterable[PlannedFault | str] = ()
    ) -> None:
        """Play another script from now on, and forget what was asked before; arguments as with `emulator`."""
        planned = _script(script, form, faults)

        async def played() -> None:
            self._emulator.play(planned)

        asyncio.run_coroutine_threadsafe(played(), self._started.result()).result(_ENDS_S)

    def start(self) -> None:
        """Start it; return when it can be asked."""
        self._thread.start()
        self._started.result()

    def stop(self) -> None:
        """End it; requests that are still answered are broken off."""
        if self._told_to_end is not None and self._thread.is_alive():
            self._started.result().call_soon_threadsafe(self._told_to_end.set)
        self._thread.join(_ENDS_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            if self._started.done():
                raise
            self._started.set_exception(error)  # whoever starts it is told

    async def _serve(self) -> None:
        self._told_to_end = asyncio.Event()
        async with self._emulator:
            self._started.set_result(asyncio.get_running_loop())
            await self._told_to_end.wait()


def _script(script: Script | Path | str, form: Form, faults: Iterable[PlannedFault | str]) -> Script:
    if isinstance(script, Path):
        script = Script.read(script)
    elif isinstance(script, str):
        script = Script.parse(script, form=form)
    return script.with_faults(PlannedFault.parse(one) if isinstance(one, str) else one for one in faults)
