"""A run whose history was shortened is stopped at any of its records, and goes on with exactly what would have been sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.pictures import shows
from tests.unit.replay.stopped import cut, must_be_legal

from cellwright.budget import Budget
from cellwright.conversation import RESUMED, conversation_of, user_item
from cellwright.errors import ModelError, UsageError
from cellwright.estimate import tokens_of
from cellwright.history import Pictures
from cellwright.loop import Outcome, drive, run
from cellwright.model.base import Item, OnDelta, Request, Response
from cellwright.record import Run, read_run
from cellwright.record.records import HistoryShortened, ModelFailed, ModelRequest, Note
from cellwright.record.stored import digest_of
from cellwright.replay.fork import fork
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.secrets import NONE
from cellwright.session import Session
from cellwright.terms import Checks, Sending, Terms, TermsGiven
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, response, says

WORDS = {"system.md": "Do it.", "exec_py.md": "Python.", "exec_js.md": "JavaScript."}
"""So that the thresholds here stand, whatever our own prompts say."""
KINDS = {
    "by its terms": (Sending(pictures=Pictures(3, 1), compact_at=6_000, prompts=WORDS), 1_000_000),
    "when the server finds it too long": (Sending(pictures=Pictures(8, 2), prompts=WORDS), 8_500),
}
"""What is sent, and how many tokens, by our estimate, the model's server takes."""


class Forgetful(ScriptedModel):
    """Plays the turn after the last one in the history; sums up when it may not call; and its server takes only so much."""

    def __init__(self, turns: list[Response], room: int) -> None:
        super().__init__([])
        self.turns = turns
        self.room = room

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:  # noqa: ARG002 - no view
        self.requests.append(request)
        must_be_legal(request)
        assert "Do all of it." in str(request.history[0]), "the task never goes"
        if sum(map(tokens_of, request.history)) > self.room:
            raise ModelError("Too long.", refused_with=400, code="context_length_exceeded")
        ids = {item.get("id") for item in request.history}
        place = max((n for n, turn in enumerate(self.turns, 1) if turn.items[-1].raw["id"] in ids), default=0)
        if not request.may_call:
            return says(f"Up to turn {place} it is done.")
        return self.turns[place]


LONG = Budget(turns=100)
"""Of which nothing is said: what is spent counts anew in a run that goes on."""


def reasoning(number: int) -> Item:
    return {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}


def compaction() -> Item:
    return {"id": "cmp_1", "type": "compaction", "encrypted_content": "sealed"}


def script() -> list[Response]:
    """Return a run with all that shortens a history: pictures, the same ones again, much text, a compaction, too much at once."""
    turns = [calls(shows(number)) for number in (1, 2, 2, 3, 4, 4, 5)]
    turns += [calls("log('x' * 11_000)"), calls("log('y' * 11_000)", "log(1)"), calls(shows(6), "1 / 0")]
    compacts = calls("log('compacted')")
    turns.append(response(compaction(), reasoning(1), *(item.raw for item in compacts.items)))
    turns += [calls(shows(7)), calls(shows(8, 9, 9)), calls("log('z' * 11_900)"), calls("log('a' * 11_900)")]
    turns += [calls(shows(10, 11)), calls(shows(11)), says("All is done.")]
    return turns


async def whole(turns: list[Response], kind: str) -> Outcome:
    sending, room = KINDS[kind]
    model = Forgetful(turns, room)
    async with Session.open(driver="loop", task="Do all of it.", model=model.name, backend=FakeBackend()) as session:
        return await drive(session, model, "Do all of it.", terms=Terms(sending=sending, budget=LONG))


def asked_for(run: Run) -> list[tuple[str, ...]]:
    """Return of each request for the next turn what it sent, by the digests in the record; what a resumed run was told apart."""
    told = {
        digest_of(user_item(record.text)).sha256
        for record in run.records
        if isinstance(record, Note) and record.topic == RESUMED
    }
    return [
        tuple(item.sha256 for item in record.input if item.sha256 not in told)
        for record in run.records
        if isinstance(record, ModelRequest) and record.parameters["tool_choice"] == "auto"
    ]


async def test_the_runs_have_every_kind_of_step() -> None:
    steps: set[tuple[str, str]] = set()
    for kind in KINDS:
        outcome = await whole(script(), kind)
        assert (outcome.status, outcome.summary) == ("done", "All is done.")
        run = read_run(outcome.run_dir)
        steps |= {(kind, record.how) for record in run.records if isinstance(record, HistoryShortened)}
        sent = [item for record in run.records if isinstance(record, ModelRequest) for item in record.input]
        assert "compaction" in {item.type for item in sent}
        refused = [record.http_status for record in run.records if isinstance(record, ModelFailed)]
        assert (len(refused) > 1) is ("too long" in kind)
    assert steps == {(kind, how) for kind in KINDS for how in ("pictures", "summary")}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_sent_can_be_told_from_the_record_before_each_request(kind: str) -> None:
    run = read_run((await whole(script(), kind)).run_dir)
    places = [(n, one) for n, one in enumerate(run.records) if isinstance(one, ModelRequest)]
    asked = [(n, one) for n, one in places if one.parameters["tool_choice"] == "auto"]
    assert len(asked) >= len(script())
    for place, request in asked:
        read = conversation_of(replace(run, lines=run.lines[:place]))
        assert tuple(digest_of(item) for item in read.sent) == request.input


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_a_run_that_is_stopped_at_any_record_sends_the_same_from_there_on(kind: str, tmp_path: Path) -> None:
    turns = script()
    outcome = await whole(turns, kind)
    before = read_run(outcome.run_dir)
    expected = asked_for(before)
    first = next(n for n, one in enumerate(before.records) if one.type == "model_request")
    ends = next(n for n, one in enumerate(before.records) if one.type == "run_closed")
    for place in range(first, ends + 1):
        folder = tmp_path / f"{place}"
        records = cut(outcome.run_dir, folder, place)
        plan = plan_for(read_run(folder), "safe")
        driving = Driving(model=Forgetful(turns, KINDS[kind][1]), budget=LONG)
        ended = await resume_by_model(folder, plan, Given(), driving, backend=FakeBackend())
        assert ended.status == "done"
        if records[-1]["type"] == "cell_opened":
            continue  # that cell is answered as lost, which it was not
        again = asked_for(read_run(folder))
        made = sum(one["type"] == "model_request" and one["parameters"]["tool_choice"] == "auto" for one in records)
        assert again[:made] == expected[:made]
        rest = again[made:]
        assert rest == expected[len(expected) - len(rest) :], f"stopped after {records[-1]['type']}, {place}"


async def test_a_request_that_is_still_too_long_ends_the_run_with_the_servers_words() -> None:
    turns = [calls(shows(1)), calls(shows(2)), calls("log('x' * 40_000)"), says("Done.")]
    model = Forgetful(turns, 9_000)
    async with Session.open(driver="loop", task="Do all of it.", model="m", backend=FakeBackend()) as session:
        outcome = await drive(session, model, "Do all of it.")
    assert (outcome.status, outcome.reason) == ("failed", "Too long.")
    asked = [request.may_call for request in model.requests]
    assert asked == [True, True, True, True, True, False, True], (
        "without the picture, then with a summary, and no more than that"
    )


async def test_a_fork_has_nothing_of_what_the_model_was_told_and_left_out_after_its_last_cell() -> None:
    turns = [calls(shows(1)), calls(shows(2)), calls(shows(3)), says("Done."), says("Done again."), says("3")]
    sending, checks = Sending(pictures=Pictures(2, 1)), Checks(result_schema={"type": "integer"})
    async with Session.open(driver="loop", task="Do all of it.", model="m", backend=FakeBackend()) as session:
        terms = Terms(sending=sending, checks=checks)
        outcome = await drive(session, Forgetful(turns, 1_000_000), "Do all of it.", terms=terms)
    assert (outcome.status, outcome.result) == ("done", 3)
    recorded = read_run(outcome.run_dir)
    forked = conversation_of(read_run(fork(recorded, 3, secrets=NONE)))
    assert (forked.sent.pictures, forked.after, forked.last_words, forked.sent_back) == (3, (), None, 0)
    assert forked.terms is not None
    assert forked.terms.pictures == "2:1"


@pytest.mark.parametrize(
    "given",
    [
        TermsGiven(pictures="many"),
        TermsGiven(prompts={"systen.md": "."}),
        TermsGiven(result_schema={"type": "nothing"}),
    ],
)
async def test_terms_that_mean_nothing_are_refused_before_anything_is_brought_back(given: TermsGiven) -> None:
    outcome = await run("Do it.", model=ScriptedModel([calls("log(1)")]), backend=FakeBackend())
    journal = (outcome.run_dir / "journal.jsonl").read_bytes()
    plan = plan_for(read_run(outcome.run_dir), "safe")
    with pytest.raises(UsageError, match="Nothing was started"):
        await resume_by_model(
            outcome.run_dir, plan, Given(), Driving(model=ScriptedModel([]), terms=given), backend=FakeBackend()
        )
    assert (outcome.run_dir / "journal.jsonl").read_bytes() == journal
