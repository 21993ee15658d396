"""Cells that take longer than their answer may: how they are answered, waited for, interrupted, recorded; over a fake sandbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from tests.long_sandbox import LongBackend
from tests.waiting import until

from cellwright.deadlines import asked_s, deadline_of, too_long
from cellwright.errors import SessionBusy, UsageError
from cellwright.gateway import left_running
from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.loop import run
from cellwright.ongoing import rest_of
from cellwright.pool import Pool
from cellwright.record.reader import read_run
from cellwright.record.records import CellRunning
from cellwright.record.verdict import verify
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.model import ScriptedModel, calls, says
from cellwright_kernel.wire import Cell, Language, Text

TOKEN = "t" * 40


@pytest.mark.parametrize(
    ("code", "language", "seconds"),
    [
        ("# timeout_s=600\nx", "python", 600.0),
        ("#timeout_s = 2.5", "python", 2.5),
        ("// timeout_s=600\nx", "javascript", 600.0),
        ("x\n# timeout_s=600", "python", None),
        ("// timeout_s=600", "python", None),
        ("# timeout_s=600", "javascript", None),
        ("# timeout_s=0", "python", None),
        ("# timeout_s=-1", "python", None),
        ("# timeout_s=1e9", "python", None),
        ("# timeout_s=600 for the download", "python", None),
        ("# timeout_s=600 # for the download", "python", 600.0),
        ("\n \n# timeout_s=600", "python", 600.0),
        ("#  TIMEOUT_S=600", "python", 600.0),
        ("## timeout_s: 600\r\nx", "python", 600.0),
        ("# timeout_s 600", "python", 600.0),
        ("//\ttimeout_s=600 // c", "javascript", 600.0),
        ("# timeout_s is said elsewhere", "python", None),
        ("", "python", None),
    ],
)
def test_code_asks_for_time_in_its_first_line(code: str, language: Language, seconds: float | None) -> None:
    assert asked_s(code, language) == seconds
    assert deadline_of(code, language, Spec()) == (seconds or 120.0)


def test_more_than_the_limit_is_refused_in_a_sentence() -> None:
    assert too_long("# timeout_s=3600", "python", Spec()) is None
    sentence = too_long("# timeout_s=3601", "python", Spec())
    assert sentence is not None
    assert sentence.startswith(
        "The code was not executed: it asks for 3601 s, and a cell of this session may take 3600 s."
    )
    assert too_long("# timeout_s=3601", "python", Spec(cell_deadline_s=5000)) is None


@pytest.mark.parametrize("asked", ["0", "-1", "1e9", "nan", "٦٠٠", "9" * 47, "ten", "", "1s", "600 for the download"])
def test_what_is_no_number_of_seconds_is_refused_in_a_sentence(asked: str) -> None:
    sentence = too_long(f"# timeout_s = {asked}\nlog(1)", "python", Spec())
    assert sentence is not None
    assert sentence.startswith(
        f"The code was not executed: its first line asks for {asked[:40]!r} seconds. Write a number,"
    )
    assert too_long(f"\n#TIMEOUT_S : {asked}", "python", Spec()) == sentence
    assert too_long(f"// timeout_s = {asked}", "python", Spec()) is None
    assert too_long("# timeout_s is said elsewhere", "python", Spec()) is None


async def test_a_cell_gets_the_time_that_it_asks_for_and_not_more_than_the_limit() -> None:
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("# timeout_s=600")
        await session.execute("1")
        refused = await session.execute("# timeout_s=4000\nx = 1")
        with pytest.raises(UsageError, match=r"more than the 3600 s .* Nothing ran"):
            await session.execute("1", deadline_s=4000)
    assert backend.made[0].deadlines == [600.0, 120.0]
    assert (refused.status, "asks for 4000 s" in refused.text) == ("error", True)
    assert len(read_run(session.run_dir).cells) == 3


async def test_a_deadline_is_told_as_it_was_asked_for_though_a_part_of_it_was_over() -> None:
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("# timeout_s=9", since=time.monotonic() - 2)
    (posted,) = backend.made[0].posted
    assert (posted.deadline_s < 8, posted.named_s) == (True, 9)


async def test_a_cell_is_returned_as_it_stands_and_later_as_it_ended() -> None:
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        sandbox = backend.made[0]
        sandbox.say("one")
        stands = await session.execute("long", reply_s=0.05)
        assert (stands.status, stands.text, stands.duration_ms, session.executing) == ("running", "one", None, 1)
        assert (await session.wait(reply_s=0)) == stands
        with pytest.raises(SessionBusy, match="Cell 1 is still running"):
            await session.execute("2")
        sandbox.say("two")
        sandbox.over.set()
        ended = await session.wait()
        assert ended is not None
        assert (ended.status, ended.text, session.executing, session.left) == ("ok", "one\ntwo", None, None)
        assert (await session.execute("log(3)")).text == "3"
    run = read_run(session.run_dir)
    assert [record.type for record in run.records if record.type.startswith("cell")] == [
        "cell_opened", "cell_running", "cell_running", "cell_closed", "cell_opened", "cell_closed",
    ]  # fmt: skip
    assert [cell.text for cell in run.cells] == ["one\ntwo", "3"]
    assert verify(session.run_dir).status == "whole"


async def test_who_leaves_a_cell_that_was_answered_as_running_does_not_end_it() -> None:
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("long", reply_s=0.05)
        waiting = asyncio.ensure_future(session.wait())
        await asyncio.sleep(0)
        with pytest.raises(SessionBusy, match="Somebody waits for cell 1 already"):
            await session.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert session.executing == 1
        await session.interrupt()
        ended = await session.wait()
    assert ended is not None
    assert ended.status == "interrupted"


async def test_a_session_that_closes_ends_a_cell_that_was_left_running() -> None:
    async with Session.open(backend=LongBackend()) as session:
        await session.execute("long", reply_s=0.05)
    (cell,) = read_run(session.run_dir).cells
    assert cell.status == "interrupted"


async def test_a_cell_that_never_ended_is_read_with_what_it_had_shown() -> None:
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        backend.made[0].say("half")
        await session.execute("long", reply_s=0.05)
        (cell,) = read_run(session.run_dir).cells  # as whoever reads it finds it when all is killed now
        assert (cell.status, cell.text) == ("running", "half")


async def test_the_journal_says_now_and_then_what_a_running_cell_has_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cellwright.ongoing._FIRST_NOTE_S", 0.02)
    backend = LongBackend()
    async with Session.open(backend=backend) as session:
        cell = asyncio.ensure_future(session.execute("long"))
        await until(lambda: bool(backend.made) and backend.made[0].is_running)
        backend.made[0].say("half")
        await until(lambda: [c.text for c in read_run(session.run_dir).cells] == ["half"])
        backend.made[0].over.set()
        await cell
    notes = [record for record in read_run(session.run_dir).records if isinstance(record, CellRunning)]
    assert len(notes) == 1


def test_the_rest_of_a_cell_is_what_was_not_shown_before() -> None:
    def cell(*texts: str) -> Cell:
        outputs = tuple(Text(text=text, source="stdout" if text.endswith("\n") else "log") for text in texts)
        return Cell(number=1, language="python", code="", outputs=outputs, started_at="")

    def rest(before: Cell, after: Cell) -> list[str]:
        return [output.text for output in rest_of(after, before.outputs).outputs if isinstance(output, Text)]

    assert rest(cell("a\n"), cell("a\n")) == []
    assert rest(cell("a\n"), cell("a\nb\n", "c")) == ["b\n", "c"]
    assert rest(cell("a", "x"), cell("a", "y")) == ["y"]
    assert rest(cell(), cell("a")) == ["a"]
    assert rest(cell("a", "b"), cell("a")) == []


async def test_the_loop_waits_for_long_work_without_a_turn(tmp_path: Path) -> None:
    backend = LongBackend()
    model = ScriptedModel([calls("# timeout_s=600\nlong"), says("done")])

    async def let_go() -> None:
        await until(lambda: bool(backend.made) and backend.made[0].is_running)
        backend.made[0].say("at last")
        backend.made[0].over.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(let_go())
        outcome = await run("t", model=model, backend=backend, runs=tmp_path)
    assert (outcome.status, outcome.turns, backend.made[0].deadlines) == ("done", 2, [600.0])


@pytest.fixture
def backend() -> LongBackend:
    return LongBackend()


@pytest.fixture
async def client(backend: LongBackend) -> AsyncIterator[httpx2.AsyncClient]:
    app = make_app(Pool(Spec(), backend=backend), token=TOKEN, hosts=own_hosts("127.0.0.1", 80) | {"127.0.0.1"})
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
    ):
        yield client


async def said(client: httpx2.AsyncClient, code: str) -> list[str]:
    reply = await client.post("/execute", json={"session_id": "a", "language": "python", "code": code})
    assert reply.status_code == 200, reply.text
    return [item["text"] for item in reply.json()["output"]]


async def said_early(client: httpx2.AsyncClient, code: str) -> list[str]:
    """Return what is said when the time of this one answer has come already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(left_running, "INTERRUPT_S", 0.0)
        return await said(client, code)


LONG = "# timeout_s=600\nlong"
STILL = "Cell 2 has not ended yet: it is still running. What it has shown so far stands above. Call with `# wait` alone"


async def test_a_guide_client_is_told_of_long_work_waits_for_it_and_loses_nothing(
    client: httpx2.AsyncClient, backend: LongBackend
) -> None:
    await said(client, "x = 1")
    sandbox = backend.made[0]
    sandbox.say("one")
    first, still = await said_early(client, LONG)
    assert (first, still.startswith(STILL)) == ("one", True)
    sandbox.say("two")
    second, still, refused = await said(client, "x = 2")
    assert (second, still.startswith(STILL)) == ("two", True)
    assert refused == "The code of this call was not executed. Send it again when cell 2 has ended."
    assert len(await said_early(client, "# wait")) == 1
    sandbox.say("three")
    sandbox.over.set()
    assert await said(client, " // wait ") == ["three"]
    for word in ("# wait", "# interrupt"):
        assert await said(client, word) == ["No cell is running. Nothing was executed."]
    assert await said(client, "log(x)") == ["1"]


async def test_the_rest_of_long_work_stands_before_the_next_calls_output(
    client: httpx2.AsyncClient, backend: LongBackend
) -> None:
    await said(client, "x = 1")
    await said_early(client, LONG)
    backend.made[0].say("rest")
    backend.made[0].over.set()
    await until(lambda: not backend.made[0].is_running)
    assert await said(client, "log(x)") == [
        "Cell 2, which was still running, has ended with status ok. What it showed since:",
        "rest",
        "This call itself:",
        "1",
    ]
    assert await said(client, "log(x)") == ["1"]


async def test_a_guide_client_can_interrupt_long_work(client: httpx2.AsyncClient) -> None:
    await said(client, "x = 1")
    await said_early(client, LONG)
    assert await said(client, "# interrupt") == ["The cell was interrupted. Variables set before that are kept."]
    assert await said(client, "log(x)") == ["1"]


async def test_a_guide_client_can_interrupt_long_work_that_another_waits_for(
    client: httpx2.AsyncClient, backend: LongBackend
) -> None:
    await said(client, "x = 1")
    waiting = asyncio.ensure_future(said(client, LONG))
    await until(lambda: backend.made[0].is_running)
    assert await said(client, "# interrupt") == [
        "Cell 2 was told to end. Whoever waits for it is answered with what it has shown."
    ]
    assert await waiting == ["The cell was interrupted. Variables set before that are kept."]


async def test_a_cell_whose_session_is_closed_is_told_that_nothing_is_left(
    client: httpx2.AsyncClient, backend: LongBackend
) -> None:
    await said(client, "x = 1")
    waiting = asyncio.ensure_future(said(client, LONG))
    await until(lambda: backend.made[0].is_running)
    assert (await client.delete("/v1/sessions/a")).status_code == 204
    assert (await waiting)[-1].endswith(
        "The session was closed while this cell ran, and its sandbox ended with it: variables, files and windows are gone."
    )


async def test_two_calls_at_once_conflict_while_one_waits(client: httpx2.AsyncClient, backend: LongBackend) -> None:
    await said(client, "x = 1")
    await said_early(client, LONG)
    body = {"session_id": "a", "language": "python", "code": "# wait"}
    calls = {asyncio.ensure_future(client.post("/execute", json=body)) for _ in range(2)}
    answered, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    assert [call.result().status_code for call in answered] == [409]
    backend.made[0].over.set()
    assert [(await call).status_code for call in waiting] == [200]


async def test_a_cell_over_http_is_answered_as_running_and_waited_for_by_its_number(
    client: httpx2.AsyncClient, backend: LongBackend
) -> None:
    await client.post("/v1/sessions", json={"session_id": "a"})
    backend.made[0].say("one")
    cells = "/v1/sessions/a/cells"
    posted = (await client.post(cells, json={"code": "long", "deadline_s": 600, "wait_s": 0.05})).json()
    assert (posted["number"], posted["status"], posted["outputs"][0]["text"]) == (1, "running", "one")
    assert (await client.get(f"{cells}/1")).json()["status"] == "running"
    assert (await client.post(cells, json={"code": "2"})).status_code == 409
    backend.made[0].over.set()
    ended = (await client.get(f"{cells}/1", params={"wait_s": 5})).json()
    assert (ended["status"], ended["outputs"]) == ("ok", posted["outputs"])
    assert (await client.get(f"{cells}/1")).json()["status"] == "ok"


async def test_a_guide_client_gets_no_more_time_than_a_session_with_a_lower_limit_gives(backend: LongBackend) -> None:
    async with Session.open(Spec(cell_deadline_s=5, deadline_limit_s=10), backend=backend) as session:
        with ExitStack() as held:
            reply = await left_running.begin(session, "log(1)", "python", time.monotonic(), held)
    assert reply.items == [{"type": "input_text", "text": "1"}]
    assert 0 < backend.made[0].deadlines[0] <= 10
