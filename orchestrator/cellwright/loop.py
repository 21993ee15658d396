"""A run by a model: turn after turn, until it has finished, spent its budget or been stopped.

Flows in: a task, a model, a session. Flows out: cells in the session, records in its journal, and an `Outcome`. Decided
here: that every call of a response is checked before anything of it runs, and that one bad call keeps the whole
response from running; that every call is answered, in order, in one next request; when a run has ended, and as what. All
ways to end are one family of exceptions, so that the record is complete whichever came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, assert_never, cast

from pydantic import JsonValue

from cellwright.answer import InputItem, answer, said
from cellwright.budget import Budget, Meter
from cellwright.deadlines import deadline_of
from cellwright.endings import BudgetSpent, Finished, Refused, ResponseUnusable, RunEnded, Stopped, Stuck
from cellwright.errors import ModelError, UsageError
from cellwright.model.base import DEFAULT_MODEL, Call, Item, Model, Request, Response, Usage
from cellwright.model.tools import WRAP_UP, Accepted, Rejected, checked, instructions_for, tools_for
from cellwright.ongoing import ModelCall
from cellwright.progress import (
    Arriving,
    CallRejected,
    CellEnded,
    CellStarted,
    CellWrote,
    OnProgress,
    Progress,
    RunStarted,
    TurnArrived,
    TurnStarted,
)
from cellwright.record import records
from cellwright.record.run_info import RunEnd
from cellwright.record.stored import digest_of
from cellwright.running import OnEvent
from cellwright.sandbox.base import Backend, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Language

MAX_IDLE_TURNS: Final = 3
"""So many responses in a row that call for nothing and finish nothing, or whose calls cannot be had, and the run is stuck."""

_NOT_ALONE: Final = (
    "Not executed: another call of the same response could not be, so nothing of that response was. Send it again."
)
_UNUSABLE: Final = {
    "max_output_tokens": "The response was cut off at its limit of tokens",
    "content_filter": "The response was stopped by the server's content filter",
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what it took."""

    run_id: str
    run_dir: Path
    status: RunEnd
    reason: str | None
    """Why, as a sentence; absent when it is done."""
    summary: str | None
    """The model's last words; absent when there are none."""
    turns: int
    """Responses of the model, one that only sums up among them."""
    cells: int
    usage: Usage


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


async def run(
    task: str,
    *,
    model: str | Model = DEFAULT_MODEL,
    base_url: str | None = None,
    api_key: str | None = None,
    spec: Spec | None = None,
    budget: Budget | None = None,
    languages: Sequence[Language] = ("python", "javascript"),
    on_progress: OnProgress | None = None,
    backend: Backend | None = None,
    runs: Path | None = None,
    secrets: Mapping[str, str] | None = None,
) -> Outcome:
    """Have a model do a task in a sandbox of its own, and return how that ended. Its record is on disk then.

    Args:
        task: What is to be done, in the user's words.
        model: Name of a model at a server of the Responses API, or a `Model`.
        base_url: Address of that server; absent: `OPENAI_BASE_URL`, or OpenAI.
        api_key: Absent: `OPENAI_API_KEY`.
        spec: What the sandbox is made from.
        budget: What may be spent; absent: 20 turns.
        languages: What it may write: `exec_py`, `exec_js` or both are offered.
        on_progress: Gets what happens while it does.
        backend: A backend to use instead of the one that the Spec names.
        runs: Folder of the runs; absent: the user's own.
        secrets: The value of each secret that the Spec names.

    Raises:
        UsageError: The task is empty, a secret has no value, or there is neither a key nor another server.
        SandboxUnavailable: No sandbox could be started.
        asyncio.CancelledError: It was cancelled; the running cell was interrupted and the run closed as `cancelled`.
    """
    if not task.strip():
        raise UsageError("The task is empty. Nothing was started. Say what is to be done.")
    asked = _over_http(model, base_url, api_key) if isinstance(model, str) else model
    try:
        async with Session.open(
            spec, driver="loop", task=task, model=asked.name, backend=backend, runs=runs, secrets=secrets
        ) as session:
            tell = on_progress or _unwatched
            tell(RunStarted(session.run_id, session.run_dir, asked.name))
            driven = Run(session, asked, task, budget=budget or Budget(), languages=languages, on_progress=tell)
            end = await driven.go()
            return Outcome(
                session.run_id, session.run_dir, end.status, end.reason, end.summary,
                driven.turns, driven.meter.cells, driven.usage,
            )  # fmt: skip
    finally:
        if asked is not model:
            await asked.close()


def _over_http(name: str, base_url: str | None, api_key: str | None) -> Model:
    from cellwright.model.responses import ResponsesModel  # noqa: PLC0415 - loads openai: 0.5 s

    return ResponsesModel(name, base_url=base_url, api_key=api_key)


class Run:
    """One task, one model, one session."""

    def __init__(
        self,
        session: Place,
        model: Model,
        task: str,
        *,
        budget: Budget,
        on_progress: OnProgress,
        languages: Sequence[Language] = ("python",),
    ) -> None:
        self.usage = Usage()
        """Tokens of all responses so far."""
        self.turns = 0
        """Responses of the model so far."""
        self.meter = Meter(budget)
        self._session = session
        self._model = model
        self._tell = on_progress
        self._languages = tuple(languages)
        self._history: list[Item] = [_user(task)]
        spec = session.spec
        self._instructions = instructions_for(
            [path.name for path in spec.files],
            spec.allow,
            browser=spec.browser,
            secrets={secret.name: secret.hosts for secret in spec.secrets},
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
        _check_usable(response)
        self._history.extend(item.raw for item in response.items)
        if response.calls:
            self._history.extend(await self._answers(response.calls))
        else:
            self._finish_or_go_on(response)

    async def _end(self) -> RunEnded:
        """Go on until something ends it; return that."""
        try:
            while True:
                await self.turn()
        except RunEnded as ended:
            return ended
        except ModelError as error:
            return ResponseUnusable(str(error))

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
            response = await self._model.respond(request, lambda delta: self._tell(Arriving(delta)))
        except ModelError as error:
            journal.append(records.ModelFailed(turn=turn, reason=str(error), http_status=error.refused_with))
            raise
        took_ms = round((time.monotonic() - began) * 1000)
        journal.append(records.ModelResponse(turn=turn, response=response.raw, duration_ms=took_ms))
        self.turns = turn
        self.usage += response.usage
        self._tell(TurnArrived(turn, response.usage, self.usage))
        return response

    async def _answers(self, calls: Sequence[Call]) -> list[Item]:
        """Return one answer for each call, in order. Nothing runs before all of them are checked."""
        _check_ids(calls)
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
        self._session.journal.append(records.Note(topic="call", text=f"{call.call_id}: {reason}"))
        self._tell(CallRejected(reason))
        return _answer(call, [said(reason)])

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
        return _answer(accepted.call, answer(cell))

    def _deadline_s(self, accepted: Accepted) -> float:
        """A cell may take as long as its code asks for, and is waited for here: that costs the model no turn."""
        wanted = deadline_of(accepted.code, accepted.language, self._session.spec)
        left = self.meter.seconds_left
        return wanted if left is None else max(1.0, min(left, wanted))

    def _finish_or_go_on(self, response: Response) -> None:
        """A message that is more than commentary finishes; commentary alone, or reasoning alone, means: go on."""
        last_words = [message for message in response.messages if message.phase != "commentary"]
        if last_words:
            raise Finished(summary="\n".join(message.text for message in last_words))
        self._count_idle("It neither called for anything nor finished, several times in a row.")

    def _count_idle(self, reason: str) -> None:
        self._idle_turns += 1
        if self._idle_turns >= MAX_IDLE_TURNS:
            raise Stuck(reason)

    async def _wrap_up(self, spent: str) -> None:
        """Have the model sum up, without further calls: what was paid for is not thrown away."""
        self._history.append(_user(WRAP_UP.replace("{what}", spent)))
        try:
            response = await self._ask(may_call=False)
        except ModelError as error:
            raise BudgetSpent(f"The budget was spent ({spent}); there is no summary: {error}") from error
        summary = "\n".join(message.text for message in response.messages if message.text)
        raise BudgetSpent(f"The budget was spent ({spent}).", summary=summary or None)


def _check_usable(response: Response) -> None:
    """Nothing of a response that is not whole is executed: its code may be half written."""
    if response.status != "completed":
        why = _UNUSABLE.get(response.reason or "", f"The response ended as {response.status}")
        detail = f" ({response.reason})" if response.reason else ""
        raise ResponseUnusable(f"{why}{detail}. Nothing of it was executed.")
    refusals = [message.refusal for message in response.messages if message.refusal is not None]
    if refusals:
        raise Refused(f"The model refused: {' '.join(refusals)}", summary="\n".join(refusals))
    kinds = {str(item.raw.get("type")) for item in response.items}
    foreign = sorted(kind for kind in kinds if kind.endswith("_call") and kind != "function_call")
    if foreign:
        raise ResponseUnusable(f"The model used a tool that was not offered: {', '.join(foreign)[:200]}.")


def _check_ids(calls: Sequence[Call]) -> None:
    ids = [call.call_id for call in calls]
    if not all(ids) or len(set(ids)) != len(ids):
        raise ResponseUnusable("The calls of a response have no ids of their own, so they cannot be answered.")


def _answer(call: Call, items: Sequence[InputItem]) -> Item:
    output = cast("list[JsonValue]", list(items))
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def _user(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said(text)["text"]}]}


def _unwatched(_: Progress) -> None:
    """Nobody looks."""
