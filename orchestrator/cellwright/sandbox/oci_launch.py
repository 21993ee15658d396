"""Starting a sandbox by an engine, and ending it for certain.

Flows in: the engine's command, the door's descriptor. Flows out: a `Launched`, whose end is the sandbox's. Decided here: who
sees to it that nothing is left when we are killed. An engine's sandbox is not below our process, so no signal of ours ends it;
a keeper, a shell that outlives us, does when our leash is let go and the kernel host has not stopped by itself soon after.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellwright.errors import CellwrightError
from cellwright.sandbox.launch import Launched, start_process
from cellwright.sandbox.oci_engine import Engine, engine_environment

_END_S: Final = 10.0
"""Seconds that an engine has to remove a sandbox; 0.3 are usual."""
_GRACE_S: Final = 2.5
"""Seconds that a kernel host has to stop by itself, once its leash was let go."""

_KEEPER: Final = """
door=$0 folder=$1 grace=$2 removals=$3; shift 3
removal=("${@:1:removals}"); shift "$removals"
if [ "$door" != - ] && [ "$door" != 3 ]; then exec 3<&"$door"; eval "exec $door<&-"; fi
"$@" <&0 &
run=$!
exec 3<&-
{ while read -r _; do :; done
  timeout "$grace" tail --pid="$run" -s 0.1 -f /dev/null
  "${removal[@]}"
} <&0 >/dev/null 2>&1 &
watch=$!
wait "$run"; status=$?
if read -r -t 0; then wait "$watch"; rm -rf -- "$folder"; else kill "$watch"; fi
exit "$status"
"""
"""Runs the command with the door as descriptor 3. The leash is standard input: command and watch both read it to its end, and
when it is found at its end, whoever held it is gone and removes nothing any more."""


class _LaunchedByEngine(Launched):
    """The process is the keeper."""

    def __init__(self, process: Process, engine: Engine, sandbox: str) -> None:
        super().__init__(process)
        self._engine = engine
        self._sandbox = sandbox

    async def end(self) -> None:
        """See `Launched.end`; returns once the engine has removed the sandbox."""
        try:
            async with asyncio.timeout(_END_S):
                await self._engine.remove(self._sandbox)
                await self._gone()
        except TimeoutError:
            raise CellwrightError(
                f"The sandbox {self._sandbox} was told to end, and {self._engine.name} has not removed it. Usually the "
                f"machine is overloaded. It may still run. Look at `{self._engine.name} ps --all`."
            ) from None
        finally:
            self.ask_to_end()


async def launch_by(
    engine: Engine, sandbox: str, folder: Path, command: Sequence[str], *, door: int | None
) -> Launched:
    """Start a sandbox.

    Args:
        engine: Which makes it.
        sandbox: The name that the command gives it.
        folder: Its place's, which is removed if we can't do that ourselves.
        command: Of the engine.
        door: Descriptor that is handed down as number 3; None: nothing is.
    """
    removal = engine.removal(sandbox)
    number = "-" if door is None else str(door)
    process = await start_process(
        ["/bin/bash", "-pc", _KEEPER, number, str(folder), str(_GRACE_S), str(len(removal)), *removal, *command],
        uid=None,
        keep=() if door is None else (door,),
        environment=engine_environment(),
    )
    return _LaunchedByEngine(process, engine, sandbox)
