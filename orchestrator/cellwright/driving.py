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
from contextlib import suppress
from typing import Final, assert_never

from pydantic import JsonValue

from cellwright.answer import answer, said
from cellwright.asking import NotAsked, Question
from cellwright.briefing import Briefing, briefing
from cellwright.budget import Meter
from cellwright.checking import DEADLINE_S, Checking
from cellwright.conversation import (
    BUDGET,
    CALL,
    SENT_BACK,
    STEERED,
    STUCK,
    WRAP_UP,
    Conversation,
    answer_item,
    check_ids,
    check_usable,
    last_words_of,
)
from cellwright.deadlines import deadline_of
from cellwright.endings import BudgetSpent, Finished, ResponseUnusable, RunEnded, Stopped, Stuck
from cellwright.errors import CellwrightError, ModelError
from cellwright.history import Answer, History, user_item
from cellwright.model import asking_tool
from cellwright.model.asking_tool import Asks
from cellwright.model.base import Call, Model, Response
from cellwright.model.tools import WRAP_UP_NOW, Accepted, Rejected, checked
from cellwright.ongoing import ModelCall
from cellwright.place import Place
from cellwright.progress import Asked, CallRejected, CellEnded, CellStarted, CellWrote, OnProgress
from cellwright.record import records
from cellwright.requesting import Requesting
from cellwright.stuck import Watch
from cellwright.terms import Terms
from cellwright_kernel.wire import Cell, Language

MAX_IDLE_TURNS: Final = 3
"""So many responses in a row that call for nothing and finish nothing, or whose calls cannot be had, and the run is stuck."""

_NOT_ALONE: Final = (
    "Not executed: another call of the same response could not be, so nothing of that response was. Send it again."
)
_HELD_BACK: Final = (
    "Not executed: before this call was begun, a person said something, which stands in the message behind these answers. Make it "
    "again where it still holds."
)
_NOT_BEGUN: Final = (
    "Not executed: everything was stopped before this call was begun, and what had been done before it is not all there. "
    "Look at what is there, then send it again."
)


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
        self._people = terms.people
        self._steering = terms.steering
        self.meter = Meter(terms.budget, self._own_time, prices=terms.prices, model=model.name)
        self._watch = Watch(terms.patience)
        self._session = session
        self._tell = on_progress
        self._languages = terms.languages
        self._begun = begun
        self._history = begun.history.copy() if begun else History(user_item(task))
        told = briefing(session.spec, terms.languages, terms.sending, terms.checks, people=self._asks)
        self.requesting = Requesting(
            model,
            self._history,
            Briefing((begun and begun.instructions) or told.instructions, told.tools),
            sending=terms.sending,
            steering=terms.steering,
            meter=self.meter,
            journal=session.journal,
            on_progress=on_progress,
            begun=begun,
        )
        """How the model is asked; it knows how often it was."""
        self._checking = Checking(
            terms.checks,
            folder=session.run_dir,
            execute=self._verify,
            steering=terms.steering,
            journal=session.journal,
            sent_back=begun.sent_back if begun else 0,
        )
        self._idle_turns = 0
        self._spent: str | None = None

    @property
    def result(self) -> JsonValue:
        """What the final answer is, where it has a schema and satisfies it; else None."""
        return self._checking.result

    @property
    def _asks(self) -> bool:
        """Whether the model can ask somebody."""
        return self._people.asking is not None

    def _own_time(self) -> float:
        """A clock that stands still while people are waited for."""
        return time.monotonic() - self._people.waits.total_s

    async def go(self) -> RunEnded:
        """Go on until it has ended; return how. The session has been told."""
        try:
            return self._concluded(await self._end())
        except asyncio.CancelledError:
            self._concluded(Stopped("It was interrupted from outside."))
            raise
        except CellwrightError:  # the session's to record
            self._keep_what_was_said()
            raise

    async def turn(self) -> None:
        """Ask the model once, and do what it asks for.

        Raises:
            RunEnded: It was the last turn.
            ModelError: There is no response.
        """
        await self._steering.before_an_act(self._people.waits)
        self._listen()
        self._look_whether_stuck()
        self.requesting.take_in_unsent()
        news = self.meter.news()
        spent = self._spent or self.meter.take_turn(self.requesting.next_request(may_call=True))
        if spent is not None:
            await self._wrap_up(spent)
        if news is not None:
            self.requesting.say(news, BUDGET)
        response = await self.requesting.respond(may_call=True)
        if response.cut_off_at is not None:
            await self._wrap_up(
                f"the last response was cut off at {response.cut_off_at:,} tokens, which was all that it could have beside a summary"
            )
        check_usable(response)
        check_ids(response.calls, self._history)
        self._history.respond(item.raw for item in response.items)
        if response.calls:
            for answered in await self._answers(response.calls):
                self._history.answer(answered)
        else:
            if self._steering.is_paused:  # the person may be about to say something
                await self._steering.before_an_act(self._people.waits)
            await self._finish_or_go_on(response)

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
            return (BudgetSpent if self.meter.seconds_left == 0 else ResponseUnusable)(str(error))

    async def _take_up(self, begun: Conversation) -> None:
        """Answer what the last response called for and nobody answered; finish, if it had finished."""
        are_good = not any(isinstance(self._checked(call), Rejected) for call in begun.calls)
        for call in begun.calls:
            self._history.answer(begun.answers.get(call.call_id) or await self._belated(call, begun, are_good=are_good))
        self._history.say(*begun.after)
        if begun.last_words is not None:
            await self._finish(begun.last_words)

    async def _belated(self, call: Call, begun: Conversation, *, are_good: bool) -> Answer:
        one = self._checked(call)
        if isinstance(one, Rejected) or not are_good:
            return self._turned_down(one)
        if begun.was_steered:
            return self._reject(call, _HELD_BACK)
        may_do = begun.may_execute or isinstance(one, Asks)
        return await self._done(one) if may_do else self._reject(call, _NOT_BEGUN)

    def _checked(self, call: Call) -> Accepted | Asks | Rejected:
        is_question = self._asks and call.name == asking_tool.NAME
        return asking_tool.asked(call) if is_question else checked(call, self._languages)

    def _concluded(self, end: RunEnded) -> RunEnded:
        self._session.conclude(end.status, reason=end.reason, summary=end.summary)
        self._keep_what_was_said()
        return end

    def _keep_what_was_said(self) -> None:
        """Record what the model was not told any more, for a run that goes on from this one."""
        with suppress(CellwrightError):  # a full disk keeps nobody from the end
            for text in self._steering.taken():
                self._session.journal.append(records.Note(topic=STEERED, text=text))

    async def _answers(self, calls: Sequence[Call]) -> list[Answer]:
        """Return one answer for each call, in order. Nothing runs before all of them are checked."""
        all_checked = [self._checked(call) for call in calls]
        if any(isinstance(one, Rejected) for one in all_checked):
            answers = [self._turned_down(one) for one in all_checked]
            self._count_idle("Its calls could not be executed, several times in a row.")
            return answers
        self._idle_turns = 0
        return [await self._done(one) for one in all_checked if not isinstance(one, Rejected)]

    def _listen(self) -> None:
        """Take what a person has said meanwhile; it goes with the next request."""
        for text in self._steering.taken():
            self.requesting.say(text, STEERED)

    async def _done(self, one: Accepted | Asks) -> Answer:
        await self._steering.before_an_act(self._people.waits)
        if self._steering.holds_back:
            return self._reject(one.call, _HELD_BACK)
        return await self._ask_person(one) if isinstance(one, Asks) else await self._execute(one)

    async def _ask_person(self, asks: Asks) -> Answer:
        """Have a person answer; it is no cell, and takes none of the budget."""
        question, journal = Question(asks.question), self._session.journal
        try:
            text = await self._steering.unless_stopped(
                self._people.answered(question, journal, within_s=self._people.longest_s, call_id=asks.call.call_id)
            )
        except NotAsked as error:
            text = str(error)
        self._tell(Asked(asks.question, text))
        return Answer(answer_item(asks.call, [said(text)]))

    def _turned_down(self, one: Accepted | Asks | Rejected) -> Answer:
        match one:
            case Rejected(reason=reason):
                return self._reject(one.call, reason)
            case Accepted() | Asks():
                return self._reject(one.call, _NOT_ALONE)
            case _:
                assert_never(one)

    def _reject(self, call: Call, reason: str) -> Answer:
        self._session.journal.append(records.Note(topic=CALL, call_id=call.call_id, text=reason))
        self._tell(CallRejected(reason))
        return Answer(answer_item(call, [said(reason)]))

    async def _execute(self, accepted: Accepted) -> Answer:
        self._spent = self._spent or self.meter.take_cell()
        if self._spent is not None:
            return self._reject(accepted.call, f"Not executed: the budget of this task is spent ({self._spent}).")
        self._tell(CellStarted(accepted.language, accepted.code))
        cell = await self._session.execute(
            accepted.code,
            language=accepted.language,
            deadline_s=self._deadline_s(accepted),
            on_event=lambda event: self._tell(CellWrote(event)),
            call=ModelCall(turn=self.requesting.turns, call_id=accepted.call.call_id),
        )
        self._tell(CellEnded(cell))
        self._watch.saw(cell)
        return Answer(answer_item(accepted.call, answer(cell)), cell.number)

    def _deadline_s(self, accepted: Accepted) -> float:
        """A cell may take as long as its code asks for, and is waited for here: that costs the model no turn."""
        wanted = deadline_of(accepted.code, accepted.language, self._session.spec)
        left = self.meter.seconds_left
        return wanted if left is None else max(1.0, min(left, wanted))

    async def _finish_or_go_on(self, response: Response) -> None:
        """A message that is more than commentary finishes; commentary alone, or reasoning alone, means: go on."""
        if (summary := last_words_of(response)) is not None:
            self._listen()
            if not self.requesting.has_unsent:  # else the person said something that it had not read when it finished
                await self._finish(summary)
            return
        self._count_idle("It neither called for anything nor finished, several times in a row.")

    async def _finish(self, words: str) -> None:
        """Finish, unless what must hold does not, or a person has said something while that was found out."""
        try:
            complaint = await self._checking.finished(words)
        except Finished:
            if not self._steering.words:
                raise
        else:
            self.requesting.say(complaint, SENT_BACK)

    async def _verify(self, code: str, language: Language) -> Cell:
        """Execute a cell of the user's, which no call asked for."""
        self._tell(CellStarted(language, code))
        cell = await self._session.execute(
            code,
            language=language,
            deadline_s=min(DEADLINE_S, self._session.spec.longest_s),
            on_event=lambda event: self._tell(CellWrote(event)),
            call=None,
        )
        self._tell(CellEnded(cell))
        return cell

    def _count_idle(self, reason: str) -> None:
        self._idle_turns += 1
        if self._idle_turns >= MAX_IDLE_TURNS:
            raise Stuck(reason)

    def _look_whether_stuck(self) -> None:
        """Tell the model that it gets nowhere, or end it."""
        verdict = self._watch.verdict()
        if verdict is not None and verdict.is_end:
            raise Stuck(verdict.words)
        if verdict is not None:
            self.requesting.say(verdict.words, STUCK)

    async def _wrap_up(self, spent: str) -> None:
        """Have the model sum up, without further calls: what was paid for is not thrown away."""
        if not self.meter.turns:
            raise BudgetSpent(
                f"The budget does not hold a turn and the summary behind it ({spent}). The model was not asked."
            )
        self.requesting.take_in_unsent()
        if not self.meter.may_sum_up(self.requesting.next_request(may_call=False)):
            raise BudgetSpent(f"The budget was spent ({spent}), and does not hold a summary; none was asked for.")
        self.requesting.say(WRAP_UP_NOW.replace("{what}", spent), WRAP_UP)
        try:
            response = await self.requesting.respond(may_call=False)
        except ModelError as error:
            raise BudgetSpent(f"The budget was spent ({spent}); there is no summary: {error}") from error
        summary = "\n".join(message.text for message in response.messages if message.text)
        raise BudgetSpent(f"The budget was spent ({spent}).", summary=summary or None)
