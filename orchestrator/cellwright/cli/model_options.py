"""Which model does a task, and how it is asked, said the same way by `run`, `resume` and `fork`.

Flows in: the words after `--model`, `--base-url`, `--emulate`, `--effort` and their like. Flows out: the model, for as
long as it is asked. Decided here: that a script is played over real HTTP within the same command; that what is known of
a server from `cellwright probe` is used, and said. What needs the openai library is imported where it is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import JsonValue

from cellwright.emulator.script import Script
from cellwright.errors import UsageError
from cellwright.model.asking import Asking
from cellwright.model.base import DEFAULT_MODEL, Model
from cellwright.model.profile import BUILT_IN
from cellwright.model_server import model_at, profile_for
from cellwright.plain import plain

_EMULATED: Final = "emulator"


@dataclass(frozen=True)
class Who:
    """Which model does it, and how it is asked."""

    name: str
    base_url: str | None
    script: Script | None
    asking: Asking = field(default_factory=Asking)
    profile: str | None = None
    fallbacks: tuple[str, ...] = ()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Model]:
        """Give it, for as long as it can be asked."""
        from cellwright.emulator.server import API_KEY, Emulator  # noqa: PLC0415 - see above

        if self.script is None:
            known = profile_for(self.name, self.base_url, self.profile)
            if known.known_from == "probe":
                print(
                    f"cellwright: this server is asked as `probe` found that {plain(known.name)} wants it",
                    file=sys.stderr,
                )
            async with self._asked(self.base_url, None) as model:
                yield model
            return
        async with Emulator(self.script) as emulator, self._asked(emulator.base_url, API_KEY) as model:
            yield model

    @asynccontextmanager
    async def _asked(self, base_url: str | None, api_key: str | None) -> AsyncIterator[Model]:
        model = model_at(
            self.name,
            base_url=base_url,
            api_key=api_key,
            asking=self.asking,
            profile=self.profile,
            fallbacks=self.fallbacks,
        )
        try:
            yield model
        finally:
            await model.close()


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
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"What the server can do: {', '.join(BUILT_IN)}. Default: what `probe` found, or by the URL.",
        ),
    ] = None
    fallback_model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Asked where the model gives no answer after all retries; may be repeated."),
    ] = None
    effort: Annotated[str | None, typer.Option(help="How much the model reasons: low, medium, high, ...")] = None
    service_tier: Annotated[str | None, typer.Option(help="Sent as it stands.")] = None
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Sent with each request; may be repeated.")
    ] = None
    extra: Annotated[
        str | None, typer.Option(metavar="JSON", help="Further fields of each request, merged into it.")
    ] = None
    no_stream: Annotated[bool, typer.Option("--no-stream", help="Get each response whole, not in pieces.")] = False
    chain: Annotated[
        bool, typer.Option("--chain", help="Have the server store the conversation; only what is new is sent.")
    ] = False
    custom_tools: Annotated[
        bool, typer.Option("--custom-tools", help="Have the model write code as plain text, not in JSON.")
    ] = False
    compact_threshold: Annotated[
        int | None, typer.Option(min=1, metavar="TOKENS", help="Have the server shorten a longer conversation.")
    ] = None
    requests_per_second: Annotated[
        float | None, typer.Option(help="At most so many, all runs of this process together.")
    ] = None

    def chosen(self, before: str | None = None) -> Who:
        """Return which model does it.

        Args:
            before: Name of the one that did until now, where a run goes on.

        Raises:
            UsageError: That is not clear, or cannot be had.
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
        return Who(
            self.model or (_EMULATED if script is not None else before) or DEFAULT_MODEL,
            self.base_url,
            script,
            asking=self._asking(),
            profile=self.profile,
            fallbacks=tuple(self.fallback_model or ()),
        )

    def _asking(self) -> Asking:
        return Asking(
            streams=not self.no_stream,
            chains=self.chain,
            custom_tools=self.custom_tools,
            compact_threshold=self.compact_threshold,
            effort=self.effort,
            service_tier=self.service_tier,
            metadata=_pairs(self.metadata or ()),
            extra=_object(self.extra),
            per_second=self.requests_per_second,
        )


def _pairs(words: Sequence[str]) -> dict[str, str]:
    for word in words:
        if not word.partition("=")[0] or "=" not in word:
            raise UsageError(f"--metadata wants NAME=VALUE, not {word[:80]!r}. Nothing was started.")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _object(text: str | None) -> dict[str, JsonValue]:
    try:
        value: JsonValue = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--extra is not JSON: {error}. Nothing was started. Give an object.") from error
    if not isinstance(value, dict):
        raise UsageError("--extra is not a JSON object. Nothing was started. Give one: '{\"top_p\": 0.5}'.")
    return value
