"""Several models for one conversation: where the first gives no answer, the next one is asked for that turn.

Flows in: models, the wanted one first. Flows out: the response of whichever answered. Decided here: that only a failure
that may pass, once its retries are used up, leads to another model; that the same model goes on for a while then,
because each change costs the server's cache and the model's reasoning; and that the first is asked again after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from cellwright.errors import ModelError
from cellwright.model.base import AskedOtherwise, Model, OnDelta, Request, Response

BACK_AFTER_S: Final = 300.0
"""Seconds after which the first model is asked again."""


class FallbackModel:
    """Models that stand in for each other."""

    def __init__(
        self,
        models: Sequence[Model],
        *,
        back_after_s: float = BACK_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._models = tuple(models)
        self._back_after_s = back_after_s
        self._clock = clock
        self._index = 0
        self._since = clock()

    def __repr__(self) -> str:
        return f"<FallbackModel {', '.join(model.name for model in self._models)}: {self.name} is asked>"

    @property
    def name(self) -> str:
        """Name of the model that is asked next."""
        return self._models[self._now()].name

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        """Return what that one is sent besides the history."""
        return self._models[self._now()].parameters(request)

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        """Ask it, and the next ones where it gives no answer."""
        waited_ms, first = 0, self._now()
        order = [*range(first, len(self._models)), *range(first)]
        for index, following in zip(order, [*order[1:], None], strict=True):
            try:
                response: Response = await self._models[index].respond(request, on_delta)
            except ModelError as error:
                waited_ms += error.waited_ms
                if not error.may_pass or following is None:
                    error.waited_ms = waited_ms
                    raise
                after = self._models[following]
                on_delta(
                    AskedOtherwise(after.name, after.parameters(request), f"{error} {after.name} is asked instead.")
                )
                continue
            self._answered(index)
            whole: Response = replace(response, waited_ms=response.waited_ms + waited_ms)
            return whole
        raise AssertionError("there is a model")  # pragma: no cover - the last one answers or raises

    async def close(self) -> None:
        """Close all."""
        for model in self._models:
            await model.close()

    def _now(self) -> int:
        """Return which one is asked: the first again, after a while."""
        return self._index if self._clock() - self._since < self._back_after_s else 0

    def _answered(self, index: int) -> None:
        if index != self._index or self._now() != index:
            self._index, self._since = index, self._clock()
