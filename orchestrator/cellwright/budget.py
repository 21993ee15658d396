"""How much a run by a model may spend: turns, cells, seconds, tokens, money. Asked before the act, never after.

Flows in: a `Budget`, each request before it is made with what its response said that it used, each cell as it begins. Flows out: why the
next one may not begin, as half a sentence; and, once for each thing that is counted, how much of it is left. Decided here: what counts;
that the response which sums up when the budget is spent isn't a turn of it, but that its tokens and its money are kept back for it; when a
request that is not answered is given up; how much the next request is taken to cost: nothing of it in the server's cache, and an answer as
long as the longest so far; and that the server is told how long it may be, where what is left holds no more.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from cellwright.counted import counted
from cellwright.errors import ModelError, UsageError
from cellwright.estimate import tokens_of, tokens_of_request
from cellwright.model.base import OutputLimit, Request, Response, Usage
from cellwright.prices import Price, Prices, dollars

Clock = Callable[[], float]
"""Returns seconds, from any beginning."""

TOLD_FROM: Final = 0.75
"""From so much of a budget on, the model is told what is left."""
OUTPUT_TOKENS: Final = 1_000
"""A response is taken to have at least so many tokens, the one that sums up too."""
ANSWER_TOKENS: Final = 3_000
"""The answers to its calls are taken to have at least so many: a few pictures of the screen, or a long text."""
LAST_WORDS_S: Final = 60.0
"""Seconds that the response which sums up has at least, when those of the budget are spent."""
LEAST_OUTPUT: Final = 16
"""The API takes no smaller limit of a response."""
ANY_OUTPUT: Final = 32_768
"""Beyond this no limit is named: of one that is more than its model can write, a server may say that it is too large."""
_TOLD_TOKENS: Final = 200
"""Of a message between two turns: how much is left, or that nothing is."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend."""

    turns: int = 20
    """Responses of the model."""
    cells: int | None = None
    """Absent: as many as the turns ask for."""
    seconds: float | None = None
    """By the clock, from the first request; absent: no end but that of the turns."""
    tokens: int | None = None
    """Input and output of all responses together, cached ones and the summary's among them; absent: they are not counted."""
    money: float | None = None
    """US dollars, by the table of prices; absent: it is not counted."""

    def __post_init__(self) -> None:
        for name in ("turns", "cells", "seconds", "tokens", "money"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                amount = f"${value:g}" if name == "money" else f"{value} {name}"
                raise UsageError(f"A budget of {amount} allows nothing. Nothing was started. Give more than 0.")


class Meter:
    """What a run has spent of its budget."""

    def __init__(
        self, budget: Budget, clock: Clock = time.monotonic, *, prices: Prices | None = None, model: str = ""
    ) -> None:
        """Begin to count.

        Args:
            budget: What may be spent.
            clock: Gives the time.
            prices: What models cost; absent: that is not known of any.
            model: Name of the one that is asked.
        """
        prices = prices or Prices()
        self.budget = budget
        self.turns = 0
        """Begun so far."""
        self.cells = 0
        """Begun so far."""
        self.tokens = 0
        """Of all responses so far."""
        self._prices = prices
        self.asks(model)
        self._is_known = True
        """Whether that is, for every response so far: what its model costs, and what it used."""
        self._money = 0.0
        self._clock = clock
        self._began = clock()
        self._known = _Known()
        self._longest_output = OUTPUT_TOKENS
        self._longest_answers = ANSWER_TOKENS
        self._told = set[str]()
        if budget.money is not None and self._counts_as is None:
            raise UsageError(
                "A budget in money needs a table of prices, and there is none. Nothing was started. docs/loop.md shows one."
            )

    def asks(self, model: str) -> None:
        """Count by the price of another model from now on."""
        self.price = self._prices.of(model)
        """Of the model that is asked; absent: not known."""
        self._counts_as = self.price or self._prices.worst
        self._model = model

    @property
    def cost(self) -> float | None:
        """What it has cost so far, in dollars; None where a price is not known, or a server did not say what it used."""
        return self._money if self.price is not None and self._is_known else None

    @property
    def caution(self) -> str | None:
        """What has to be said of the price before anything is spent, as a sentence; None where nothing has."""
        if self.budget.money is None or self.price is not None or self._counts_as is None:
            return None
        return (
            f"What {self._model!r} costs is not known, so it counts as the dearest of the table: {self._counts_as.words}. "
            "An entry for it in a table of your own changes that; where it costs nothing, with input = 0 and output = 0."
        )

    @property
    def seconds_left(self) -> float | None:
        """Seconds until it is spent, at least 0; absent when they aren't counted."""
        if self.budget.seconds is None:
            return None
        return max(0.0, self.budget.seconds - (self._clock() - self._began))

    @property
    def turns_left(self) -> int:
        """Turns that may still begin."""
        return max(0, self.budget.turns - self.turns)

    def take_turn(self, request: Request | None = None) -> str | None:
        """Count a turn that is about to begin; or return why it may not.

        Args:
            request: With which it would begin; absent: tokens and money are not looked at.
        """
        why = counted(self.budget.turns, "turn") if self.turns >= self.budget.turns else self._time_is_up()
        if why is None and request is not None:
            why = self._does_not_fit(request)
        self.turns += why is None
        return why

    def take_cell(self) -> str | None:
        """Count a cell that is about to begin; or return why it may not."""
        if self.budget.cells is not None and self.cells >= self.budget.cells:
            return counted(self.budget.cells, "cell")
        why = self._time_is_up()
        self.cells += why is None
        return why

    @asynccontextmanager
    async def in_time(self, *, is_last: bool = False) -> AsyncIterator[None]:
        """Give up what is waited for when the seconds are spent; the last words have `LAST_WORDS_S` at least.

        Raises:
            ModelError: They are.
        """
        left_s = self.seconds_left
        if left_s is not None and is_last:
            left_s = max(left_s, LAST_WORDS_S)
        try:
            async with asyncio.timeout(left_s) as whole:
                yield
        except TimeoutError:
            if not whole.expired():
                raise
            raise ModelError(
                f"The model had not answered when the time of this task was up ({self.budget.seconds:g} s), and its answer was given "
                "up. What was executed before is recorded. Give more seconds, or see whether the model server answers at all."
            ) from None

    def may_sum_up(self, request: Request) -> bool:
        """Return whether the request for a summary fits into what was kept back for it; it is told how long it may be."""
        return self._breaks(self._with_last_words(self._put_in(request), OUTPUT_TOKENS), self._counts_as) is None

    def may_shorten(self, request: Request) -> bool:
        """Return whether a summary of the history, made with such a request, fits besides the turn and the end behind it."""
        return self._breaks(self._with_summary(self._put_in(request), self._longest_output), self._counts_as) is None

    def limit(self, request: Request, *, ends: bool, shortens: bool) -> OutputLimit | None:
        """Return how long a response may be so that it, and what has to follow it, stay within the budget; None: that is not counted.

        Args:
            request: What is asked.
            ends: It asks for the last words.
            shortens: It asks for a summary that takes the place of a part of the history.

        Returns:
            By the price of the model that is asked. At least `LEAST_OUTPUT`, and None where so much is left that no limit is named.
        """
        if self.budget.tokens is None and self.budget.money is None:
            return None
        put_in = self._put_in(request)
        asks = self._with_last_words if ends else self._with_summary if shortens else self._with_turn

        def most(model: str) -> int | None:
            price = self._prices.of(model) or self._prices.worst
            outputs = range(LEAST_OUTPUT, ANY_OUTPUT + 1)
            fitting = bisect_left(outputs, 1, key=lambda output: self._breaks(asks(put_in, output), price) is not None)
            return None if fitting == len(outputs) else outputs[max(0, fitting - 1)]

        return most

    def took(self, request: Request, response: Response) -> None:
        """Count what a response says that it used; of a server that says nothing, what it is taken to have used."""
        used = response.usage
        if not used.total_tokens:
            output = sum(tokens_of(item.raw) for item in response.items)
            used = Usage(self._known.expected(request), output)
        answers = self._known.learn(request, response, used)
        self._longest_answers = max(self._longest_answers, answers)
        is_whole = response.status == "completed" and response.cut_off_at is None
        if is_whole:  # else it says nothing of how long the next is
            self._longest_output = max(self._longest_output, used.output_tokens)
        self.tokens += used.total_tokens
        self._is_known = self._is_known and self.price is not None and self.price.of_said(response.usage) is not None
        if self._counts_as is not None:
            self._money += self._counts_as.of(used)

    def news(self) -> str | None:
        """Return what the model is to be told of what is left, once for each thing that is counted; None: nothing."""
        nearly_spent = {name: words for name, words in self._nearly_spent() if name not in self._told}
        self._told.update(nearly_spent)
        if not nearly_spent:
            return None
        return (
            f"This is left of the budget of this task: {'; '.join(nearly_spent.values())}. When it is spent, no further call is "
            "executed. Do first what matters most, and finish in time."
        )

    def _nearly_spent(self) -> Iterator[tuple[str, str]]:
        budget, seconds_left = self.budget, self.seconds_left or 0.0
        if self.turns >= TOLD_FROM * budget.turns:
            yield "turns", f"{counted(self.turns_left, 'turn')} of {budget.turns}"
        if budget.cells is not None and self.cells >= TOLD_FROM * budget.cells:
            yield "cells", f"{counted(budget.cells - self.cells, 'cell')} of {budget.cells}"
        if budget.seconds is not None and budget.seconds - seconds_left >= TOLD_FROM * budget.seconds:
            yield "seconds", f"{seconds_left:.0f} seconds of {budget.seconds:g}"
        if budget.tokens is not None and self.tokens >= TOLD_FROM * budget.tokens:
            yield "tokens", f"{max(0, budget.tokens - self.tokens):,} tokens of {budget.tokens:,}"
        if budget.money is not None and self._money >= TOLD_FROM * budget.money:
            yield "money", f"{dollars(max(0.0, budget.money - self._money))} of {dollars(budget.money)}"

    def _does_not_fit(self, request: Request) -> str | None:
        """Say what a turn, and the summary that may have to follow it, would break; None when both fit."""
        if self.budget.tokens is None and self.budget.money is None:
            return None
        return self._breaks(self._with_turn(self._put_in(request), self._longest_output), self._counts_as)

    def _put_in(self, request: Request) -> int:
        return self._known.expected(request) + _TOLD_TOKENS

    def _with_turn(self, put_in: int, output: int) -> list[tuple[int, int]]:
        """Return what a turn puts in and out, and after it the last words, that its answers are put into, too."""
        return [(put_in, output), (put_in + output + self._longest_answers + _TOLD_TOKENS, self._longest_output)]

    def _with_last_words(self, put_in: int, output: int) -> list[tuple[int, int]]:
        return [(put_in, output)]

    def _with_summary(self, put_in: int, output: int) -> list[tuple[int, int]]:
        """Return what a summary of the history puts in and out, and after it a turn and the last words: as if nothing became shorter."""
        return [(put_in, output), (put_in, self._longest_output), (put_in + self._longest_output, self._longest_output)]

    def _breaks(self, asked: list[tuple[int, int]], price: Price | None) -> str | None:
        """Say what requests of so many tokens, put in and out, would break together at a price; None where they fit."""
        budget = self.budget
        tokens = self.tokens + sum(put_in + put_out for put_in, put_out in asked)
        if budget.tokens is not None and tokens > budget.tokens:
            return f"one more turn could exceed {budget.tokens:,} tokens, of which {self.tokens:,} are used"
        money = self._money + (sum(price.at_most(*one) for one in asked) if price else 0.0)
        if budget.money is not None and money > budget.money:
            return f"one more turn could exceed {dollars(budget.money)}, of which {dollars(self._money)} is spent"
        return None

    def _time_is_up(self) -> str | None:
        if self.budget.seconds is None or self.seconds_left:
            return None
        return f"{self.budget.seconds:g} second{'' if self.budget.seconds == 1 else 's'}"


class _Known:
    """What the last response said of how large its conversation was: what is added is estimated, what was left out too."""

    def __init__(self) -> None:
        self._tokens: int | None = None
        self._estimated = 0

    def expected(self, request: Request) -> int:
        """Return about how many tokens a request has."""
        estimated = tokens_of_request(request)
        if self._tokens is None:
            return estimated
        return max(0, self._tokens + estimated - self._estimated)

    def learn(self, request: Request, response: Response, used: Usage) -> int:
        """Take in what a response used; return about how much its request had more than the one before."""
        estimated = tokens_of_request(request)
        added = estimated - self._estimated if self._tokens is not None else 0
        self._tokens = used.total_tokens
        self._estimated = estimated + sum(tokens_of(item.raw) for item in response.items)
        return added
