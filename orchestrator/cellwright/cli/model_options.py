"""Which model does a task, said the same way by `run`, `resume` and `fork`.

Flows in: the words after `--model`, `--base-url`, `--emulate`. Flows out: who is asked, and while it is, at which address. Decided
here: that a script is played over real HTTP within the same command. What needs the openai library is imported where it is used.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.emulator.script import Script
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL

_EMULATED: Final = "emulator"


@dataclass(frozen=True)
class Server:
    """Where the model is; absent: as the environment says."""

    base_url: str | None = None
    api_key: str | None = None


@dataclass(frozen=True)
class Who:
    """Which model does it."""

    name: str
    base_url: str | None
    script: Script | None

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Server]:
        """Say where it is asked, for as long as it can be."""
        from cellwright.emulator.server import API_KEY, Emulator  # noqa: PLC0415 - see above

        if self.script is None:
            yield Server(self.base_url)
            return
        async with Emulator(self.script) as emulator:
            yield Server(emulator.base_url, API_KEY)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options, as they were given; absent: not given."""

    model: Annotated[
        str | None,
        typer.Option(
            help=f"Name of the model. Default: {DEFAULT_MODEL}; of a run that goes on, its own.", show_default=False
        ),
    ] = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server of the Responses API, up to /v1. Default: OpenAI.")
    ] = None
    emulate: Annotated[
        Path | None,
        typer.Option(
            metavar="SCRIPT", help="Play this script instead of asking a model; a run that goes on, from there."
        ),
    ] = None

    def chosen(self, before: str | None = None) -> Who:
        """Return which model does it.

        Args:
            before: Name of the one that did until now, where a run goes on.

        Raises:
            UsageError: That is not clear.
        """
        if self.emulate is not None and self.base_url is not None:
            raise UsageError(
                "--emulate plays a script, --base-url names a server. Nothing was started. Give one of them."
            )
        if self.emulate is None and self.model is None and before == _EMULATED:
            raise UsageError(
                "This run was played from a script, so there is no model to go on. Nothing was started. Give --emulate SCRIPT, or --model."
            )
        script = None if self.emulate is None else Script.read(self.emulate)
        return Who(self.model or (_EMULATED if script is not None else before) or DEFAULT_MODEL, self.base_url, script)
