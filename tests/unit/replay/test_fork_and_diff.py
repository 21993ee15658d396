"""A run that shares another's beginning, and two runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.errors import UsageError
from cellwright.loop import run
from cellwright.record import read_run, verify
from cellwright.record.records import Egress, EgressMore, Exchanged, KeptBody, RequestSent
from cellwright.replay.compare import Compared
from cellwright.replay.diff import diff
from cellwright.replay.effects import sent_by_cells
from cellwright.replay.fork import fork
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given, resume
from cellwright.resuming import Driving, resume_by_model, words_of_fork
from cellwright.secrets import NONE
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


async def by_hand(*codes: str) -> Path:
    async with Session.open(backend=FakeBackend()) as session:
        for code in codes:
            await session.execute(code)
    return session.run_dir


async def compared(one: Path, other: Path) -> list[Compared]:
    cells = diff(read_run(one), read_run(other), MayDiffer.read(), backend=FakeBackend())
    return [cell async for cell in cells]


async def test_fork_has_the_first_cells_and_goes_on_otherwise() -> None:
    folder = await by_hand("x = 1", "x += 1", "x = 'spoilt'")
    forked = fork(read_run(folder), 2, driver="cli", secrets=NONE)
    assert [line.record for line in read_run(forked).lines] == [line.record for line in read_run(folder).lines][:6]
    async with resume(forked, plan_for(read_run(forked), "safe"), Given(), backend=FakeBackend()) as resumed:
        cell = await resumed.session.execute("log(x)")
    assert (cell.number, cell.outputs[0].text) == (3, "2")  # type: ignore[union-attr]
    info = read_run(forked).info
    assert (info.fork_of, info.at, info.driver, info.replay_of) == (folder.name, 2, "cli", None)
    assert [one.opened.number for one in read_run(forked).stored_cells] == [1, 2, 3]
    assert verify(forked).status == verify(folder).status == "whole"


async def test_another_model_goes_on_with_another_task_in_the_same_conversation() -> None:
    first = ScriptedModel([calls("x = 20"), calls("x = 'spoilt'"), says("Done.")])
    outcome = await run("Set x.", model=first, backend=FakeBackend())
    recorded = read_run(outcome.run_dir)
    forked = fork(recorded, 1, driver="loop", task="Say x.", model="another", secrets=NONE)
    second = ScriptedModel([calls("log(x + 22)"), says("It is 42.")], name="another")
    again = await resume_by_model(
        forked,
        plan_for(read_run(forked), "safe"),
        Given(),
        Driving(model=second),
        what_happened=words_of_fork(recorded, 1, "Say x."),
        backend=FakeBackend(),
    )
    assert (again.status, again.summary) == ("done", "It is 42.")
    history = second.requests[0].history
    assert [item["type"] for item in history] == ["message", "function_call", "function_call_output", "message"]
    assert "Set x." in str(history[0])
    assert "From now on the task is this: Say x." in str(history[-1])
    answer = [item for item in second.requests[1].history if item["type"] == "function_call_output"][-1]
    assert "42" in str(answer["output"])
    info = read_run(forked).info
    assert (info.task, info.model, info.fork_of, info.at) == ("Say x.", "another", outcome.run_id, 1)


async def test_a_person_s_cells_are_told_to_the_model_that_goes_on() -> None:
    folder = await by_hand("x = 20")
    recorded = read_run(folder)
    forked = fork(recorded, 1, driver="loop", task="Say x.", model="scripted", secrets=NONE)
    model = ScriptedModel([calls("log(x)"), says("20")])
    words = words_of_fork(recorded, 1, "Say x.")
    await resume_by_model(
        forked,
        plan_for(read_run(forked), "safe"),
        Given(),
        Driving(model=model),
        what_happened=words,
        backend=FakeBackend(),
    )
    task, told = model.requests[0].history
    assert "Say x." in str(task)
    assert "# cell 1, python" in str(told)
    assert "x = 20" in str(told)


async def test_cell_that_is_not_there_is_no_place_to_fork() -> None:
    folder = await by_hand("x = 1")
    with pytest.raises(UsageError, match=r"cannot be forked at cell 2: it has 1 cell\. Nothing was started\."):
        fork(read_run(folder), 2, secrets=NONE)


async def test_runs_of_the_same_cells_are_the_same() -> None:
    codes = ("x = 1\nlog(x)", "1 / 0")
    assert [cell.verdict for cell in await compared(await by_hand(*codes), await by_hand(*codes))] == ["same", "same"]


async def test_what_differs_is_told_cell_by_cell() -> None:
    one = await by_hand("log(1)", "log(2)", "log(3)")
    cells = await compared(one, other := await by_hand("log(1)", "log(1 + 2)"))
    assert [(cell.number, cell.verdict, cell.reasons) for cell in cells] == [
        (1, "same", ()),
        (2, "differs", ("Its code is another.", "It said something else.")),
        (3, "differs", (f"Only run {one.name} has it.",)),
    ]
    assert [line for line in cells[1].diff if line in {"-2", "+3"}] == ["-2", "+3"]
    assert [cell.verdict for cell in await compared(other, one)] == ["same", "differs", "differs"]


BODY = KeptBody(size_bytes=0, sha256="0" * 64)
EGRESS = {"host": "a.test", "port": 443, "allowed": True, "received_bytes": 1, "started_at": "x", "duration_ms": 1}
SENT = {
    "get": (
        [Exchanged(cell=1, method="GET", host="a.test", port=80, target="/", request_body=BODY, status=200, body=BODY)],
        (),
    ),
    "post": ([RequestSent(cell=1, method="POST", host="a.test", port=80, target="/x")], ("POST http://a.test:80/x",)),
    "tls": (
        [RequestSent(cell=1, method="CONNECT", host="a.test", port=443)],
        ("something unreadable, encrypted usually, to a.test:443",),
    ),
    "between cells": ([RequestSent(method="PUT", host="a.test", port=80, target="/")], ("PUT http://a.test:80/",)),
    "of an older run": ([Egress(cell=1, method="CONNECT", sent_bytes=9, **EGRESS)], ("CONNECT to a.test:443",)),
    "of an older run, plain": ([Egress(cell=1, method="GET", sent_bytes=9, **EGRESS)], ()),
    "of an older run, uncounted": ([EgressMore(cell=1, allowed=3)], ("3 more requests",)),
    "answered by a record": (
        [
            RequestSent(cell=1, taped=True, method="POST", host="a.test", port=80, target="/x"),
            RequestSent(cell=1, taped=True, method="CONNECT", host="a.test", port=443),
            Egress(cell=1, taped=True, method="CONNECT", sent_bytes=9, **EGRESS),
            EgressMore(cell=1, taped=True, allowed=3),
        ],
        (),
    ),
    "nothing went out": ([Egress(cell=1, method="CONNECT", sent_bytes=0, **EGRESS)], ()),
    "refused": ([Egress(cell=1, method="CONNECT", sent_bytes=9, **{**EGRESS, "allowed": False})], ()),
}


@pytest.mark.parametrize("case", SENT)
async def test_what_a_cell_sent_is_known(case: str) -> None:
    records, words = SENT[case]
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("x = 1")
        for record in records:
            session.journal.append(record)
    assert sent_by_cells(read_run(session.run_dir)).get(1, ()) == words
