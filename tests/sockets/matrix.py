"""What each fault of a model's server comes to: the expected ends as data, and one run through one combination.

A combination is a fault, how responses come (streamed, whole), how the conversation is kept (sent whole, chained), how many calls a turn
has, and before which turn the fault happens.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.waiting import GUARD_S

from cellwright.budget import Budget
from cellwright.emulator.faults import FAULTS, PlannedFault, fault_named
from cellwright.emulator.items import OUTPUT_OF, kind_of
from cellwright.emulator.script import Script, ScriptedCall, ScriptedTurn
from cellwright.emulator.seen import SeenRequest
from cellwright.emulator.server import Emulator
from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import Model
from cellwright.model.responses import ResponsesModel
from cellwright.record import Run, records
from cellwright.record.reader import read_run
from cellwright.record.verdict import verify
from cellwright.testing.fake_sandbox import FakeBackend

ENDS: dict[str, str] = {
    # what waiting does not help, or what cannot be had again
    "quota_spent": "failed",
    "unauthorized": "failed",
    "model_not_found": "failed",
    "bad_request": "failed",
    # responses of which nothing can be done
    "response_cancelled": "failed",
    "out_of_tokens": "failed",
    "content_filtered": "failed",
    "empty_call_id": "failed",
    "duplicate_call_ids": "failed",
    "reused_call_id": "failed",
    "foreign_call": "failed",
    "refused": "failed",
}
"""How a run ends that meets the fault once, or each time where it never passes; `done` where nothing stands here."""

AT = {"first": 1, "middle": 2, "last": 3, "summary": None}
"""Turn of the script; the last is the one that only sums up, when the budget is spent."""
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (32).to_bytes(4) + (32).to_bytes(4) + bytes(8)
SECONDS = {"stalled": 0.05, "slow_tokens": 0.001}

WAYS = list(itertools.product((True, False), repeat=2))
PATIENT = Retrying(attempts=4, first_s=0.001, idle_s=30.0)  # as patient as ever, but in less time


def model_for(one: Combination, base_url: str) -> Model:
    asking = Asking(streams=one.streams, chains=one.chains, retrying=PATIENT)
    return ResponsesModel("m", base_url=base_url, api_key="k", asking=asking)


@dataclass(frozen=True)
class Combination:
    """One of them."""

    fault: str
    streams: bool
    chains: bool
    calls: int
    at: str

    def __str__(self) -> str:
        return f"{self.calls} calls, at the {self.at}"

    @property
    def happens(self) -> bool:
        """Whether the fault can happen at all in it."""
        fault = fault_named(self.fault)
        if fault.applies == ("whole" if self.streams else "streamed"):
            return False
        match self.fault:
            case "response_forgotten":
                return self.chains and self.at != "first"
            case "reused_call_id":
                return self.at != "first"
            case "custom_tools_refused":
                return False  # none is offered
            case _:
                return True

    @property
    def end(self) -> str:
        """How its run ends: one whose budget is spent has ended as that, whatever comes of its summary."""
        if self.at == "summary":
            return "budget"
        if self.fault == "context_too_long":  # where there is nothing yet that could be left out, it is said
            return "done" if self.at == "last" else "failed"
        return ENDS.get(self.fault, "done") if self.happens else "done"


MODES = [(fault.name, *way) for fault in FAULTS for way in WAYS]
"""Every fault, in every way in which it can be asked for a response: whether it streams, whether it chains."""


def combinations(fault: str, streams: bool, chains: bool) -> Iterator[Combination]:
    """Yield those of one fault and one way to ask."""
    for calls, at in itertools.product((1, 2), AT):
        yield Combination(fault, streams, chains, calls, at)


def script(one: Combination) -> Script:
    """Return three turns, the last of which finishes, with the fault before one of them."""
    turns = [
        ScriptedTurn(calls=tuple(_call(f"cell {turn}.{number}") for number in range(1, one.calls + 1)))
        for turn in (1, 2)
    ]
    usual = PlannedFault.parse(one.fault)
    # a server that takes no pictures never does
    turn = None if one.fault == "images_refused" else AT[one.at]
    plan = PlannedFault(one.fault, turn, usual.times, SECONDS.get(one.fault))
    whole = Script((*turns, ScriptedTurn(text="Finished.", phase="final_answer")))
    if one.at == "summary":
        return replace(whole, wrap_up=replace(whole.wrap_up, faults=(plan,)))
    return whole.with_faults([plan])


def _call(said: str) -> ScriptedCall:
    return ScriptedCall("exec_py", json.dumps({"code": f"log({said!r}); display({PNG!r})"}))


@dataclass(frozen=True)
class Played:
    """One run, and what was seen of it from all sides."""

    outcome: Outcome
    recorded: Run
    executed: tuple[str, ...]
    """Codes that the sandbox was given."""
    seen: tuple[SeenRequest, ...]


async def play(one: Combination, runs: Path) -> Played:
    """Do one run: an emulator, a model, a sandbox and a journal of its own."""
    backend = FakeBackend()
    async with Emulator(script(one)) as emulator:
        model = model_for(one, emulator.base_url)
        try:
            budget = Budget(turns=2 if one.at == "summary" else 20)
            doing = run("Do it.", model=model, backend=backend, runs=runs, budget=budget)
            outcome = await asyncio.wait_for(doing, GUARD_S)
        finally:
            await model.close()
    executed = tuple(itertools.chain.from_iterable(sandbox.executed for sandbox in backend.made))
    return Played(outcome, read_run(outcome.run_dir), executed, tuple(emulator.seen))


def wrong_with(one: Combination, played: Played) -> list[str]:
    """Return what is not as it must be, as sentences."""
    outcome, wrong = played.outcome, list[str]()
    if outcome.status != one.end:
        wrong.append(f"It ended as {outcome.status} and not as {one.end}: {outcome.reason}")
    if (outcome.reason is None) != (outcome.status == "done"):
        wrong.append(f"As {outcome.status} it has the reason {outcome.reason!r}.")
    if any(request.fault == one.fault for request in played.seen) != one.happens:
        wrong.append(f"The fault {'did not happen' if one.happens else 'happened'}.")
    wrong += _wrong_with_cells(one, played)
    wrong += _wrong_with_requests(played)
    wrong += wrong_with_journal(played)
    return wrong


def _wrong_with_cells(one: Combination, played: Played) -> Iterator[str]:
    if len(set(played.executed)) != len(played.executed):
        yield f"A cell was executed twice: {played.executed}."
    if len(played.executed) != played.outcome.cells:
        yield f"The run counts {played.outcome.cells} cells, and the sandbox {len(played.executed)}."
    if played.outcome.status in ("done", "budget") and len(played.executed) != 2 * one.calls:
        yield f"It is done, and executed {played.executed}."


def _wrong_with_requests(played: Played) -> Iterator[str]:
    for request in played.seen:
        if request.error is not None and request.fault is None:
            yield f"The server refused what it was sent: {request.error}"
    taken = [request for request in played.seen if request.history]
    for request in taken:
        calls = [item["call_id"] for item in request.history if kind_of(item) in OUTPUT_OF]
        answers = [item["call_id"] for item in request.history if kind_of(item) in OUTPUT_OF.values()]
        if calls != answers or len(set(calls)) != len(calls):
            yield f"Of the calls {calls} were answered {answers}."


def wrong_with_journal(played: Played) -> Iterator[str]:
    """Yield what of a record does not fit together, as sentences."""
    verdict = verify(played.outcome.run_dir)
    if verdict.status != "whole" or verdict.problems:
        yield f"Its record is {verdict.status}: {verdict.problems}"
    closed = played.recorded.records[-1]
    if not isinstance(closed, records.RunClosed) or closed.status != played.outcome.status:
        yield f"Its record ends with {closed}."
    responses = [record.turn for record in played.recorded.records if isinstance(record, records.ModelResponse)]
    if responses != list(range(1, played.outcome.turns + 1)):
        yield f"It has {played.outcome.turns} turns, and its record the responses {responses}."
    asked: int | None = None
    for record in played.recorded.records:
        match record:
            case records.ModelRequest(turn=turn):
                if asked not in (None, turn):  # of the same turn: it was sent in another way
                    yield f"Request {asked} has neither a response nor a failure."
                asked = turn
            case records.ModelResponse(turn=turn) | records.ModelFailed(turn=turn):
                if asked != turn:
                    yield f"Turn {turn} came of the request {asked}."
                asked = None
            case _:
                pass
    opened = [record.call_id for record in played.recorded.records if isinstance(record, records.CellOpened)]
    if len(set(opened)) != len(opened) or None in opened:
        yield f"Its cells are of the calls {opened}."
