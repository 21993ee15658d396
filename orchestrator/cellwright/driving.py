"""One task, one model, one session: turn after turn, until the model has finished, spent its budget or been stopped.

Flows in: a task, a model, a session. Flows out: cells in the session, records in its journal, and how it ended. Decided
here: that every call of a response is checked before anything of it runs, and that one bad call keeps the whole
response from running; that every call is answered, in order, in one next request; when a run has ended, and as what. All
ways to end are one family of exceptions, so that the record is complete whichever came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, assert_never

from cellwright.answer import answer, said
from cellwright.budget import Budget, Meter
from cellwright.conversation import (
    CALL,
    Conversation,
    answer_item,
    check_ids,
    check_usable,
    last_words_of,
    user_item,
)
from cellwright.deadlines import deadline_of
from cellwright.endings import BudgetSpent, Finished, ResponseUnusable, RunEnded, Stopped, Stuck
from cellwright.errors import ModelError
from cellwright.meanwhile import heard_as
from cellwright.model.base import Call, Heard, Item, Model, Request, Response, Usage
from cellwright.model.tools import WRAP_UP, Accepted, Rejected, checked, instructions_for, tools_for
from cellwright.ongoing import ModelCall
from cellwright.progress import (
    CallRejected,
    CellEnded,
    CellStarted,
    CellWrote,
    OnProgress,
    TurnArrived,
    TurnStarted,
)
from cellwright.record import records
from cellwright.record.run_info import RunEnd
from cellwright.record.stored import digest_of
from cellwright.running import OnEvent
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Cell, Language

MAX_IDLE_TURNS: Final = 3
"""So many responses in a row that call for nothing and finish nothing, or whose calls cannot be had, and the run is stuck."""

_NOT_ALONE: Final = (
    "Not executed: another call of the same response could not be, so nothing of that response was. Send it again."
)
_NOT_BEGUN: Final = (
    "Not executed: everything was stopped before this call was begun, and what had been done before it is not all there. "
    "Look at what is there, then send it again."
)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On what terms a run is driven, whatever its task."""

    budget: Budget = field(default_factory=Budget)
    """What may be spent."""
    languages: tuple[Language, ...] = ("python", "javascript")
    """What the model may write: `exec_py`, `exec_js` or both are offered."""


class Recording(Protocol):
    """What the loop asks of a journal."""

    def append(self, record: records.Record) -> object:
        """Keep a record; on disk when it returns."""


class Place(Protocol):
    """What the loop asks of a session."""

    @property
    def spec(self) -> Spec:
        """What its sandbox was made from."""

    @property
    def journal(self) -> Recording:
        """Where the run is recorded."""

    async def execute(
        self, code: str, *, language: Language, deadline_s: float | None, on_event: OnEvent | None, call: ModelCall
    ) -> Cell:
        """Execute one cell."""

    def conclude(self, status: RunEnd, *, reason: str | None = None, summary: str | None = None) -> None:
        """Say how the run ended."""


class Run:
    """One task, one model, one session."""

    def __init__(
        self,
        session: Place,
        model: Model,
        task: str,
        *,
        terms: Terms,
        on_progress: OnProgress,
        begun: Conversation | None = None,
    ) -> None:
        self.usage = Usage()
        """Tokens of all responses so far."""
        self.turns = begun.turns if begun else 0
        """Responses of the model so far."""
        self.meter = Meter(terms.budget)
        self._session = session
        self._model = model
        self._tell = on_progress
        self._languages = terms.languages
        self._begun = begun
        self._history: list[Item] = [*begun.history] if begun else [user_item(task)]
        spec = session.spec
        self._instructions = (begun and begun.instructions) or instructions_for(
            [path.name for path in spec.files],
            spec.allow,
            browser=spec.browser,
            secrets={secret.name: secret.hosts for secret in spec.secrets},
            params=spec.params,
        )
        self._tools = tools_for(
            self._languages,
            width=spec.width,
            height=spec.height,
            page_height=spec.viewport_height,
            deadline_s=spec.cell_deadline_s,
            limit_s=spec.longest_s,
        )
        self._idle_turns = 0
        self._spent: str | None = None

    async def go(self) -> RunEnded:
        """Go on until it has ended; return how. The session has been told."""
        try:
            return self._concluded(await self._end())
        except asyncio.CancelledError:  # any other error is the session's to record
            self._concluded(Stopped("It was interrupted from outside."))
            raise

    async def turn(self) -> None:
        """Ask the model once, and do what it asks for.

        Raises:
            RunEnded: It was the last turn.
            ModelError: There is no response.
        """
        spent = self._spent or self.meter.take_turn()
        if spent is not None:
            await self._wrap_up(spent)
        response = await self._ask(may_call=True)
        check_usable(response)
        self._history.extend(item.raw for item in response.items)
        if response.calls:
            self._history.extend(await self._answers(response.calls))
        else:
            self._finish_or_go_on(response)

    async def _end(self) -> RunEnded:
        """Go on until something ends it; return that."""
        try:
            if self._begun is not None:
                await self._take_up(self._begun)
            while True:
                await self.turn()
        except RunEnded as ended:
            return ended
        except ModelError as error:
            return ResponseUnusable(str(error))

    async def _take_up(self, begun: Conversation) -> None:
        """Answer what the last response called for and nobody answered; finish, if it had finished."""
        are_good = all(isinstance(checked(call, self._languages), Accepted) for call in begun.calls)
        for call in begun.calls:
            self._history.append(begun.answers.get(call.call_id) or await self._belated(call, begun, are_good=are_good))
        self._history.extend(begun.after)
        if begun.last_words is not None:
            raise Finished(summary=begun.last_words)

    async def _belated(self, call: Call, begun: Conversation, *, are_good: bool) -> Item:
        one = checked(call, self._languages)
        if isinstance(one, Rejected) or not are_good:
            return self._turned_down(one)
        return await self._execute(one) if begun.may_execute else self._reject(call, _NOT_BEGUN)

    def _concluded(self, end: RunEnded) -> RunEnded:
        self._session.conclude(end.status, reason=end.reason, summary=end.summary)
        return end

    async def _ask(self, *, may_call: bool) -> Response:
        turn, journal = self.turns + 1, self._session.journal
        request = Request(self._instructions, tuple(self._history), self._tools, may_call)
        self._tell(TurnStarted(turn, self.meter.budget.turns))
        journal.append(
            records.ModelRequest(
                turn=turn,
                model=self._model.name,
                parameters=self._model.parameters(request),
                input=tuple(digest_of(item) for item in request.history),
            )
        )
        began = time.monotonic()
        try:
            response = await self._model.respond(request, lambda heard: self._heard(heard, turn, request))
        except ModelError as error:
            journal.append(records.ModelFailed(turn=turn, reason=str(error), http_status=error.refused_with))
            raise
        took_ms = round((time.monotonic() - began) * 1000)
        journal.append(
            records.ModelResponse(turn=turn, response=response.raw, duration_ms=took_ms, waited_ms=response.waited_ms)
        )
        self.turns = turn
        self.usage += response.usage
        self._tell(TurnArrived(turn, response.usage, self.usage))
        return response

    def _heard(self, heard: Heard, turn: int, request: Request) -> None:
        kept, told = heard_as(heard, turn, request)
        for record in kept:
            self._session.journal.append(record)
        self._tell(told)

    async def _answers(self, calls: Sequence[Call]) -> list[Item]:
        """Return one answer for each call, in order. Nothing runs before all of them are checked."""
        check_ids(calls)
        all_checked = [checked(call, self._languages) for call in calls]
        if any(isinstance(one, Rejected) for one in all_checked):
            answers = [self._turned_down(one) for one in all_checked]
            self._count_idle("Its calls could not be executed, several times in a row.")
            return answers
        self._idle_turns = 0
        return [await self._execute(one) for one in all_checked if isinstance(one, Accepted)]

    def _turned_down(self, one: Accepted | Rejected) -> Item:
        match one:
            case Rejected(reason=reason):
                return self._reject(one.call, reason)
            case Accepted():
                return self._reject(one.call, _NOT_ALONE)
            case _:
                assert_never(one)

    def _reject(self, call: Call, reason: str) -> Item:
        self._session.journal.append(records.Note(topic=CALL, call_id=call.call_id, text=reason))
        self._tell(CallRejected(reason))
        return answer_item(call, [said(reason)])

    async def _execute(self, accepted: Accepted) -> Item:
        self._spent = self._spent or self.meter.take_cell()
        if self._spent is not None:
            return self._reject(accepted.call, f"Not executed: the budget of this task is spent ({self._spent}).")
        self._tell(CellStarted(accepted.language, accepted.code))
        cell = await self._session.execute(
            accepted.code,
            language=accepted.language,
            deadline_s=self._deadline_s(accepted),
            on_event=lambda event: self._tell(CellWrote(event)),
            call=ModelCall(turn=self.turns, call_id=accepted.call.call_id),
        )
        self._tell(CellEnded(cell))
        return answer_item(accepted.call, answer(cell))

    def _deadline_s(self, accepted: Accepted) -> float:
        """A cell may take as long as its code asks for, and is waited for here: that costs the model no turn."""
        wanted = deadline_of(accepted.code, accepted.language, self._session.spec)
        left = self.meter.seconds_left
        return wanted if left is None else max(1.0, min(left, wanted))

    def _finish_or_go_on(self, response: Response) -> None:
        """A message that is more than commentary finishes; commentary alone, or reasoning alone, means: go on."""
        if (summary := last_words_of(response)) is not None:
            raise Finished(summary=summary)
        self._count_idle("It neither called for anything nor finished, several times in a row.")

    def _count_idle(self, reason: str) -> None:
        self._idle_turns += 1
        if self._idle_turns >= MAX_IDLE_TURNS:
            raise Stuck(reason)

    async def _wrap_up(self, spent: str) -> None:
        """Have the model sum up, without further calls: what was paid for is not thrown away."""
        self._history.append(user_item(WRAP_UP.replace("{what}", spent)))
        try:
            response = await self._ask(may_call=False)
        except ModelError as error:
            raise BudgetSpent(f"The budget was spent ({spent}); there is no summary: {error}") from error
        summary = "\n".join(message.text for message in response.messages if message.text)
        raise BudgetSpent(f"The budget was spent ({spent}).", summary=summary or None)
