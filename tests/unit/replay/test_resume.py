"""A run that is stopped at any of its records goes on: each call answered once, and nothing outside done twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.replay.stopped import Outside, Playing, cut, must_be_legal, resumed, turns, whole_run

from cellwright.budget import Budget
from cellwright.conversation import conversation_of
from cellwright.errors import JournalCorrupt, UsageError
from cellwright.loop import run as run_loop
from cellwright.record import Blobs, read_run
from cellwright.record.journal import Journal
from cellwright.record.records import (
    CellRebuilt,
    CopiedFile,
    FileDeleted,
    FileWritten,
    ModelRequest,
    Note,
    SessionOpened,
)
from cellwright.record.stored import digest_of
from cellwright.replay.plan import Question, plan_for
from cellwright.replay.replay import Again, replay
from cellwright.replay.resume import Given, must_be_resumable, resume
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, call, calls, response, says


async def test_cell_that_sent_something_is_not_executed_again_and_later_ones_are(outside: Outside) -> None:
    script = turns()
    whole = await whole_run(outside, script)
    folder = whole.run_dir.parent / "stopped"
    last_request = max(n for n, one in enumerate(read_run(whole.run_dir).records) if one.type == "model_request")
    cut(whole.run_dir, folder, last_request)
    model = Playing(script)
    await resumed(folder, model, "safe")
    rebuilt = [record for record in read_run(folder).records if isinstance(record, CellRebuilt)]
    assert [(record.number, record.status, record.reason) for record in rebuilt] == [
        (1, "ok", None),
        (2, None, "It sent POST http://outside.test:80/1."),
        (3, "ok", None),
        (4, None, "It sent POST http://outside.test:80/2, POST http://outside.test:80/3."),
        (5, "ok", None),
    ]
    told = str(model.requests[0].history[-1])
    assert "Cells 1, 3, 5 were executed again, and gave what is in the record." in told
    assert "Cell 4 was not executed again. It sent POST http://outside.test:80/2" in told
    assert outside.done == [1, 2, 3]


async def test_lost_cell_is_answered_with_what_is_known_and_with_what_it_gave_when_executed_again(
    outside: Outside, tmp_path: Path
) -> None:
    script = turns()
    whole = await whole_run(outside, script)
    opened = [n for n, one in enumerate(read_run(whole.run_dir).records) if one.type == "cell_opened"]
    for rerun, said in (("safe", False), ("all", True)):
        cut(whole.run_dir, tmp_path / rerun, opened[3] + 1)
        outside.done = [1]
        model = Playing(script)
        await resumed(tmp_path / rerun, model, rerun)  # type: ignore[arg-type]
        answer = str([item for item in model.requests[0].history if item.get("type") == "function_call_output"][-1])
        assert "This cell was running when the program that recorded it was stopped" in answer
        assert ("It was executed again in the new sandbox" in answer and "[1, 2, 3]" in answer) is said


async def test_call_that_nothing_was_done_about_waits_for_the_model_when_something_is_missing(
    outside: Outside, tmp_path: Path
) -> None:
    script = turns()
    whole = await whole_run(outside, script)
    responses = [n for n, one in enumerate(read_run(whole.run_dir).records) if one.type == "model_response"]
    cut(whole.run_dir, tmp_path / "run", responses[2] + 1)
    outside.done = [1]
    await resumed(tmp_path / "run", Playing(script), "safe")
    run = read_run(tmp_path / "run")
    (note,) = [record.text for record in run.records if isinstance(record, Note) and record.topic == "call"]
    assert "this call was begun" in note
    assert outside.done == [1]


async def test_answer_to_a_call_that_was_turned_down_is_read_back_whatever_its_id_is() -> None:
    bad, good = call("no JSON", call_id="a: b"), calls("log(1)")
    lost = await run_loop("Do it.", model=ScriptedModel([response(bad), good]), backend=FakeBackend())
    assert lost.status == "failed"
    asked = ScriptedModel([says("Done.")])
    await resumed(lost.run_dir, asked, "safe")
    must_be_legal(asked.requests[0])
    answers = [item for item in asked.requests[0].history if item.get("type") == "function_call_output"]
    assert answers[0]["call_id"] == "a: b"


async def test_marked_cell_is_a_question_and_the_answer_counts(outside: Outside) -> None:
    whole = await whole_run(outside, turns())
    asked: list[Question] = []

    def ask(question: Question) -> bool:
        asked.append(question)
        return question.cell.opened.number == 4

    plan = plan_for(read_run(whole.run_dir), "ask", marked={1}, ask=ask)
    assert [question.cell.opened.number for question in asked] == [1, 2, 4]
    assert [planned.how for planned in plan.cells] == ["left", "left", "recorded", "live", "recorded"]


async def test_files_restarts_and_what_was_copied_in_come_back(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("in")
    async with Session.open(Spec(files=(tmp_path / "in.txt",)), backend=FakeBackend()) as session:
        await session.execute("a = 1")
        await session.restart()
        await session.execute("b = 2")
        await session.write_file("one.txt", b"1")
        await session.write_file("two.txt", b"2")
        await session.delete_file("one.txt")
        session.conclude("failed")
    backend = FakeBackend()
    run = read_run(session.run_dir)
    async with resume(session.run_dir, plan_for(run, "safe"), Given(), backend=backend) as again:
        assert backend.made[0].files == {"in.txt": b"in", "two.txt": b"2"}
        cell = await again.session.execute("log(('a' in globals(), b))")
    assert (cell.number, cell.outputs[0].text) == (3, "(False, 2)")  # type: ignore[union-attr]
    after = read_run(session.run_dir)
    assert [record.type for record in after.records].count("file_written") == 2
    assert [cell.opened.number for cell in after.stored_cells] == [1, 2, 3]
    assert after.status == "done"


async def test_a_file_that_no_cell_made_again_is_not_missed_when_it_is_deleted() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
        session.journal.append(FileDeleted(path="made by a cell that is left out"))
        session.conclude("failed")
    run = read_run(session.run_dir)
    async with resume(session.run_dir, plan_for(run, "safe"), Given(), backend=FakeBackend()) as again:
        assert (await again.session.execute("log(a)")).text == "1"
    replayed = await replay(read_run(session.run_dir), Again(), backend=FakeBackend())
    assert [cell.verdict for cell in replayed.cells] == ["same", "same"]


async def test_nothing_is_brought_back_from_before_a_loss_that_the_run_lived_to_see() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("a = 1")
        backend.made[0].lose()
        await session.execute("b = 2")
        session.conclude("failed")
    plan = plan_for(read_run(session.run_dir), "safe")
    assert [planned.cell.opened.number for planned in plan.cells] == [2]


async def test_run_that_is_done_or_that_somebody_writes_is_not_resumed() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        with pytest.raises(UsageError, match="is running: a process writes it"):
            must_be_resumable(read_run(session.run_dir))
    with pytest.raises(UsageError, match="is done: there is nothing left to do"):
        must_be_resumable(read_run(session.run_dir))


async def test_run_without_an_end_may_be_left_without_one(tmp_path: Path) -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
    Journal.reopen(session.run_dir).leave()
    cut(session.run_dir, tmp_path / "run", 3)
    async with resume(
        tmp_path / "run", plan_for(read_run(tmp_path / "run"), "safe"), Given(), backend=FakeBackend()
    ) as r:
        r.session.conclude(None)
    assert read_run(tmp_path / "run").status == "open"


async def test_history_is_read_back_as_it_was_sent(outside: Outside, tmp_path: Path) -> None:
    """Item by item, as the digests of each request say; also in a run that was resumed."""
    script = turns()
    whole = await whole_run(outside, script)
    opened = [n for n, one in enumerate(read_run(whole.run_dir).records) if one.type == "cell_opened"]
    cut(whole.run_dir, tmp_path / "run", opened[2] + 1)
    outside.done = [1]
    await resumed(tmp_path / "run", Playing(script), "all")
    for folder in (whole.run_dir, tmp_path / "run"):
        run = read_run(folder)
        asked = [(n, one) for n, one in enumerate(run.records) if isinstance(one, ModelRequest)]
        assert len(asked) >= 5
        for place, request in asked:
            read = conversation_of(replace(run, lines=run.lines[:place]))
            assert tuple(digest_of(item) for item in read.sent) == request.input


async def test_model_that_had_spent_its_budget_goes_on_where_it_was(outside: Outside) -> None:
    script = turns()
    wrap_up = says("Half of it is done.")
    spent = await run_loop(
        "Enter it.", model=ScriptedModel([*script[:2], wrap_up]), budget=Budget(turns=2), backend=FakeBackend()
    )
    assert (spent.status, spent.summary) == ("budget", "Half of it is done.")
    model = Playing(script)
    outcome = await resumed(spent.run_dir, model, "safe")
    assert (outcome.status, outcome.turns, outside.done) == ("done", 6, [1, 2, 3])
    *_, asked, summary, resumed_now = model.requests[0].history
    assert "The budget of this task is spent (2 turns); no further call will be executed." in str(asked)
    assert summary == wrap_up.items[0].raw
    assert "This run had ended budget (The budget was spent (2 turns)), at " in str(resumed_now)
    assert "is resumed with a new budget: calls are executed again." in str(resumed_now)


async def test_response_that_nothing_was_done_with_is_asked_for_again(outside: Outside) -> None:
    script = turns()
    cut_off = response(call('{"code": "outside.post(9'), status="incomplete", reason="max_output_tokens")
    failed = await run_loop("Enter it.", model=ScriptedModel([script[0], cut_off]), backend=FakeBackend())
    assert failed.status == "failed"
    outcome = await resumed(failed.run_dir, Playing(script), "safe")
    assert (outcome.status, outside.done) == ("done", [1, 2, 3])


async def test_what_the_run_does_not_keep_is_told() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        session.journal.append(FileWritten(path="big.bin", sha256="0" * 64, size_bytes=1, kept=False))
        session.journal.append(Note(topic="attached", text="Somebody attached."))
        session.conclude("failed")
    plan = plan_for(read_run(session.run_dir), "safe")
    async with resume(session.run_dir, plan, Given(), backend=FakeBackend()) as again:
        assert not again.rebuilt.is_complete
        assert "The file big.bin was too large for the run to keep, and is not there." in again.words
        assert "Somebody had attached a Jupyter client" in again.words


async def test_file_that_the_run_says_was_copied_in_cannot_leave_its_folder() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        session.journal.blob(b"x")
        entered = CopiedFile(path="../out.txt", size_bytes=1, sha256=Blobs.name(b"x"), kept=True)
        session.journal.append(SessionOpened(session_id="s", ready_ms=1, files=(entered,)))
        session.conclude("failed")
    plan = plan_for(read_run(session.run_dir), "safe")
    with pytest.raises(JournalCorrupt, match=r"which is no file of a home\. Nothing ran\."):
        async with resume(session.run_dir, plan, Given(), backend=FakeBackend()):
            pass
