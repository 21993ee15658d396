"""A run that was stopped at one of its records, and a model that goes on in it: what it enters outside, and how it is cut."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from cellwright.egress import traffic
from cellwright.errors import ModelError
from cellwright.loop import Outcome, drive
from cellwright.model.base import OnDelta, Request, Response
from cellwright.record import read_run
from cellwright.replay.plan import Rerun, plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


class Outside:
    """What cells of a fake sandbox reach outside of it; their run knows of what is sent, before it is."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.session: Session | None = None

    def post(self, row: int) -> None:
        assert self.session is not None
        assert self.session._outgoing is not None
        self.session._outgoing.request(traffic.Request("POST", "outside.test", 80, f"/{row}", ()))
        self.done.append(row)


class Playing(ScriptedModel):
    """Plays the turn that comes after those which are in the history: the same model, asked again after a crash."""

    def __init__(self, turns: list[Response]) -> None:
        super().__init__([])
        self.turns = turns

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:  # noqa: ARG002 - no view
        self.requests.append(request)
        must_be_legal(request)
        ids = {item.get("id") for item in request.history}
        come = [turn for turn in self.turns if {item.raw["id"] for item in turn.items} <= ids]
        if len(come) == len(self.turns):
            raise ModelError("It had finished.")
        return self.turns[len(come)]


def must_be_legal(request: Request) -> None:
    """As a real server is strict: each call is answered once, after it, and nothing else is answered."""
    called: list[Any] = []
    answered: list[Any] = []
    for item in request.history:
        if item.get("type") == "function_call":
            called.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            assert item["call_id"] in called
            assert item["output"]
            answered.append(item["call_id"])
        elif item.get("type") == "message" and item.get("role") == "user":
            assert sorted(called) == sorted(answered), "somebody speaks before all calls are answered"
    assert sorted(called) == sorted(answered)


def turns() -> list[Response]:
    careful = "for row in rows[1:]:\n    if row not in outside.done:\n        outside.post(row)\nlog(outside.done)"
    return [
        calls("rows = [1, 2, 3]\nlog(len(rows))", text="I begin."),
        calls("if 1 not in outside.done:\n    outside.post(1)", "kept = 'kept'"),
        calls(careful),
        calls("log(kept)"),
        says("All is entered."),
    ]


async def whole_run(outside: Outside, turns: list[Response]) -> Outcome:
    """Do it without a crash, and return how that ended; its journal is what the tests cut."""
    model = Playing(turns)
    async with Session.open(driver="loop", task="Enter it.", model=model.name, backend=FakeBackend()) as session:
        outcome = await drive(session, model, "Enter it.")
    assert (outcome.status, outside.done) == ("done", [1, 2, 3])
    return outcome


def cut(folder: Path, to: Path, records: int, *, torn: bool = False) -> list[dict[str, Any]]:
    """Make a run that was killed right after so many records, or while it wrote the next; return them."""
    shutil.copytree(folder, to)
    (to / "head.json").unlink()
    lines = (to / "journal.jsonl").read_bytes().splitlines(keepends=True)
    rest = lines[records][: len(lines[records]) // 2] if torn and records < len(lines) else b""
    (to / "journal.jsonl").write_bytes(b"".join(lines[:records]) + rest)
    return [json.loads(line) for line in lines[:records]]


def entered(records: list[dict[str, Any]]) -> list[int]:
    """Return the rows that went out by then, as the records say."""
    return [int(one["target"][1:]) for one in records if one["type"] == "request_sent"]


async def resumed(folder: Path, model: ScriptedModel, rerun: Rerun) -> Outcome:
    plan = plan_for(read_run(folder), rerun)
    return await resume_by_model(folder, plan, Given(), Driving(model=model), backend=FakeBackend())
