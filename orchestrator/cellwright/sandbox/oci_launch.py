"""Starting a sandbox by an engine, and ending it for certain.

Flows in: the engine's command, the door's descriptor. Flows out: a `Launched`, whose end is the sandbox's. Decided here: that
the engine is asked to end it, since it is not below our process and no signal of ours reaches it; when we are killed the
cleaner asks, unless the kernel host has stopped by itself soon after.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Sequence
from typing import Final

from cellwright.errors import CellwrightError
from cellwright.sandbox.cleaner import sandbox_removal
from cellwright.sandbox.launch import Launched, start_process
from cellwright.sandbox.oci_engine import Engine, engine_environment

_END_S: Final = 10.0
"""Seconds that an engine has to remove a sandbox; 0.3 are usual."""
_HAND_DOWN: Final = 'if [ "$0" != 3 ]; then exec 3<&"$0"; eval "exec $0<&-"; fi; exec "$@"'
"""A shell's program: it hands the descriptor $0 down as number 3, where engines look, and becomes the command."""


class _LaunchedByEngine(Launched):
    """The process is the engine's client, which ends with the sandbox."""

    def __init__(self, process: Process, engine: Engine, sandbox: str) -> None:
        super().__init__(process)
        self._engine = engine
        self._sandbox = sandbox
        self._removal = sandbox_removal(process.pid, engine.removal(sandbox), engine_environment())

    async def end(self) -> None:
        """See `Launched.end`; returns once the engine has removed the sandbox."""
        try:
            async with asyncio.timeout(_END_S):
                await self._engine.remove(self._sandbox)
                await self._gone()
            self._removal.call_off()
        except TimeoutError:
            raise CellwrightError(
                f"The sandbox {self._sandbox} was told to end, and {self._engine.name} has not removed it. Usually the "
                f"machine is overloaded. It may still run. Look at `{self._engine.name} ps --all`."
            ) from None
        finally:
            self.ask_to_end()


async def launch_by(engine: Engine, sandbox: str, command: Sequence[str], *, door: int | None) -> Launched:
    """Start a sandbox.

    Args:
        engine: Which makes it.
        sandbox: The name that the command gives it.
        command: Of the engine.
        door: Descriptor that is handed down as number 3; None: nothing is.
    """
    process = await start_process(
        command if door is None else ["/bin/bash", "-pc", _HAND_DOWN, str(door), *command],
        uid=None,
        keep=() if door is None else (door,),
        environment=engine_environment(),
    )
    return _LaunchedByEngine(process, engine, sandbox)
