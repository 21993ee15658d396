"""How a model is asked: a request is made of the history, recorded, sent, and its response counted.

Flows in: the history, what the model is told besides, what goes with every request, a meter. Flows out: whole responses, with a record of each request and of what
came of it; how many there were, and what they took. Decided here: that a request is on disk before it is sent; that one which the
server found too long is made again with less, where less is to be had; that a response may be no longer than the budget holds;
by whose price each is counted; that one for a summary of the history is made only where the budget holds it; and that one which
is given up, because a person stops the run or it is interrupted from outside, has failed.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from cellwright.briefing import Briefing
from cellwright.budget import Meter
from cellwright.conversation import PRICE, Conversation
from cellwright.endings import Stopped
from cellwright.errors import ModelError
from cellwright.estimate import tokens_of_request
from cellwright.history import History, user_item
from cellwright.meanwhile import RequestRecords, heard_as
from cellwright.model.base import AskedOtherwise, Heard, Item, Model, Request, Response, Usage
from cellwright.place import Recording
from cellwright.progress import Cautioned, OnProgress, Told, TurnArrived, TurnStarted
from cellwright.record import records
from cellwright.record.records import Purpose
from cellwright.shortening import Shortening
from cellwright.steering import Steering
from cellwright.terms import Sending


class Requesting:
    """How the model of one run is asked.

    Args:
        model: The model.
        history: What is sent; it is made shorter here where that is due.
        told: What goes with every request.
        sending: How much of the history is sent.
        steering: By which a person stops the run, and the request at hand with it.
        meter: What counts.
        journal: Where requests and responses are kept.
        on_progress: Gets what happens meanwhile.
        begun: How far the run had come before, where it was taken up again.
    """

    def __init__(
        self,
        model: Model,
        history: History,
        told: Briefing,
        *,
        sending: Sending,
        steering: Steering,
        meter: Meter,
        journal: Recording,
        on_progress: OnProgress,
        begun: Conversation | None = None,
    ) -> None:
        self.usage = Usage()
        """Tokens of all responses so far."""
        self.turns = begun.turns if begun else 0
        """Responses of the model so far."""
        self._model = model
        self._history = history
        self._told = told
        self._steering = steering
        self._meter = meter
        self._journal = journal
        self._tell = on_progress
        self._authors = begun.authors if begun else {}
        self._shortening = Shortening(
            history,
            pictures=sending.pictures,
            compact_at=sending.compact_at,
            ask=self._summary,
            record=journal.append,
        )
        self._request_records = RequestRecords()
        self._unsent: list[Item] = []
        """What the model is told with the next request, after the answers to its calls."""
        self._cautions: set[str] = set()

    @property
    def has_unsent(self) -> bool:
        """Whether the model is told something that it has not been sent yet."""
        return bool(self._unsent)

    def say(self, text: str, topic: str) -> None:
        """Tell the model something with the next request, in a message of its own; the topic is one of `TOLD`."""
        self._journal.append(records.Note(topic=topic, text=text))
        self._unsent.append(user_item(text))
        self._tell(Told(text))

    def take_in_unsent(self) -> None:
        """Have the history say what the model is told next: from now on it is a part of every request."""
        self._history.say(*self._unsent)
        self._unsent.clear()

    def next_request(self, *, may_call: bool) -> Request:
        """Return the request of the whole history as it stands; what was not taken in is not in it."""
        return self._request(self._history.items, may_call=may_call)

    async def respond(self, *, may_call: bool) -> Response:
        """Take in what is unsent, then ask with the whole history, or with what is left of it where that is too long.

        Raises:
            ModelError: There is none.
            Stopped: A person stopped the run before it was there.
        """
        self.take_in_unsent()
        if may_call:  # behind the last words there is nothing that a shorter history would be good for
            await self._shortening.before_request(tokens_of_request(self._request((), may_call=True)))
        while True:
            try:
                return await self._send(self.next_request(may_call=may_call))
            except ModelError as error:
                if not await self._shortening.makes_room(error):
                    raise

    def _request(self, items: tuple[Item, ...], *, may_call: bool) -> Request:
        return Request(self._told.instructions, items, self._told.tools, may_call, self._authors)

    async def _summary(self, items: tuple[Item, ...]) -> Response | None:
        """Ask for a summary of the history, where the budget holds that."""
        request = self._request(items, may_call=False)
        return await self._send(request, "summary") if self._meter.may_shorten(request) else None

    async def _send(self, request: Request, purpose: Purpose | None = None) -> Response:
        turn, sums_up = self.turns + 1, not request.may_call
        is_last = sums_up and purpose is None
        self._counts(self._model.name)  # which one stands in for which changes between two requests, too
        limit = self._meter.limit(request, ends=is_last, shortens=purpose == "summary")
        request = replace(request, most_output=limit)
        self._tell(TurnStarted(turn, turn + self._meter.turns_left, sums_up=sums_up))
        parameters = self._model.parameters(request)
        self._journal.append(self._request_records.of(turn, self._model.name, parameters, request, purpose))
        began = time.monotonic()
        try:
            async with self._meter.in_time(is_last=is_last):
                asked = self._model.respond(request, lambda heard: self._heard(heard, turn, request, purpose))
                response = await self._steering.unless_stopped(asked)
        except (ModelError, Stopped, asyncio.CancelledError) as error:
            self._journal.append(_failed(turn, error))
            raise
        took_ms = round((time.monotonic() - began) * 1000)
        self._journal.append(
            records.ModelResponse(
                turn=turn,
                response=response.raw,
                duration_ms=took_ms,
                waited_ms=response.waited_ms,
                cut_off_at=None if sums_up else response.cut_off_at,
            )
        )
        self.turns = turn
        self.usage += response.usage
        self._meter.took(request, response)
        self._tell(TurnArrived(turn, response.usage, self.usage, self._meter.cost))
        return response

    def _heard(self, heard: Heard, turn: int, request: Request, purpose: Purpose | None) -> None:
        if isinstance(heard, AskedOtherwise):
            self._counts(heard.model)
        kept, told = heard_as(
            heard, lambda model, parameters: self._request_records.of(turn, model, parameters, request, purpose)
        )
        for record in kept:
            self._journal.append(record)
        self._tell(told)

    def _counts(self, model: str) -> None:
        """Count by the price of the model that is asked now, and say once where that is not known."""
        self._meter.asks(model)
        if (caution := self._meter.caution) is not None and caution not in self._cautions:
            self._cautions.add(caution)
            self._journal.append(records.Note(topic=PRICE, text=caution))
            self._tell(Cautioned(caution))


def _failed(turn: int, error: ModelError | Stopped | asyncio.CancelledError) -> records.ModelFailed:
    if isinstance(error, ModelError):
        return records.ModelFailed(turn=turn, reason=str(error), http_status=error.refused_with)
    what = "a person stopped the run" if isinstance(error, Stopped) else "the run was interrupted from outside"
    return records.ModelFailed(
        turn=turn,
        reason=f"The request was given up when {what}. What was executed before is recorded. A run that "
        "is resumed asks again.",
    )
