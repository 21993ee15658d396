"""People who are elsewhere: what waits for them under `/v1/sessions/ID`, and what a client of the guide is told meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi import FastAPI
from tests.waiting import GUARD_S, until

from cellwright.asking import Approval, Question
from cellwright.desk import Desk
from cellwright.errors import NothingWaits
from cellwright.gateway import left_running
from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.people import People
from cellwright.pool import Pool
from cellwright.record import read_run
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 40
ASK = "log(ask_user('Which account?'))"


@asynccontextmanager
async def serving(people: object) -> AsyncIterator[tuple[httpx2.AsyncClient, Pool]]:
    pool = Pool(Spec(), capacity=2, backend=FakeBackend(), people=people)  # type: ignore[arg-type]
    app: FastAPI = make_app(pool, token=TOKEN, hosts=own_hosts("127.0.0.1", 80) | {"127.0.0.1"})
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url="http://127.0.0.1",
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as client,
    ):
        yield client, pool


@pytest.fixture
async def asked() -> AsyncIterator[tuple[httpx2.AsyncClient, Pool]]:
    async with serving(People.at_a_desk) as both:
        yield both


@pytest.fixture
async def approved() -> AsyncIterator[tuple[httpx2.AsyncClient, Pool]]:
    async with serving(lambda: People.at_a_desk(approve="each")) as both:
        yield both


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of the guide that is answered after 0.15 s in place of 24."""
    monkeypatch.setattr(left_running, "INTERRUPT_S", 0.1)
    monkeypatch.setattr(left_running, "HELD_S", 0.15)
    monkeypatch.setattr("cellwright.gateway.left_running._left_s.__defaults__", (0.1,))


async def waiting(client: httpx2.AsyncClient, kind: str) -> dict[str, object]:
    """Return the one thing that waits for a person, once it does."""
    async with asyncio.timeout(GUARD_S):
        while True:
            listed = (await client.get(f"/v1/sessions/a/{kind}")).json()
            if isinstance(listed, list) and listed:
                (one,) = listed
                return dict(one)
            await asyncio.sleep(0.01)


async def execute(client: httpx2.AsyncClient, code: str) -> list[str]:
    body = {"session_id": "a", "language": "python", "code": code}
    response = await client.post("/execute", json=body)
    assert response.status_code == 200
    return [item["text"] for item in response.json()["output"]]


async def test_a_question_of_a_cell_is_listed_and_answered(asked: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = asked
    await client.post("/v1/sessions", json={"session_id": "a"})
    assert (await client.get("/v1/sessions/a/questions")).json() == []
    executing = asyncio.ensure_future(client.post("/v1/sessions/a/cells", json={"code": ASK}))
    assert await waiting(client, "questions") == {"number": 1, "cell": 1, "question": "Which account?"}
    answered = [await client.post("/v1/sessions/a/questions/1", json={"answer": text}) for text in ("blue", "red")]
    assert [response.status_code for response in answered] == [204, 404]
    assert answered[1].json()["kind"] == "NothingWaits"
    assert (await executing).json()["outputs"][0]["text"] == "blue"
    assert (await client.get("/v1/sessions/a/questions")).json() == []


@pytest.mark.parametrize(
    "body", [{}, {"answer": ""}, {"answer": " \n"}, {"answer": 7}, {"answer": "x" * 20_001}, {"answer": "x", "to": 1}]
)
async def test_what_is_no_answer_is_refused_and_the_question_waits_on(
    asked: tuple[httpx2.AsyncClient, Pool], body: dict[str, object]
) -> None:
    client, _ = asked
    executing = asyncio.ensure_future(execute(client, ASK))
    await waiting(client, "questions")
    assert (await client.post("/v1/sessions/a/questions/1", json=body)).status_code == 400
    assert (await waiting(client, "questions"))["number"] == 1
    await client.post("/v1/sessions/a/questions/1", json={"answer": "x"})
    assert await executing == ["x"]


async def test_answers_to_what_nobody_asks_are_not_found(asked: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = asked
    await client.post("/v1/sessions", json={"session_id": "a"})
    for session, number in (("a", 1), ("a", 10**30), ("none", 1)):
        said = await client.post(f"/v1/sessions/{session}/questions/{number}", json={"answer": "x"})
        decided = await client.post(f"/v1/sessions/{session}/approvals/{number}", json={"approve": True})
        assert (said.status_code, decided.status_code) == (404, 404)


async def test_whoever_has_no_token_sees_and_says_nothing(asked: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = asked
    await client.post("/v1/sessions", json={"session_id": "a"})
    for method, path in (("GET", "questions"), ("POST", "questions/1"), ("GET", "approvals"), ("POST", "approvals/1")):
        response = await client.request(method, f"/v1/sessions/a/{path}", headers={"Authorization": "Bearer x"})
        assert response.status_code == 401


async def test_where_the_service_asks_nobody_the_cell_is_told_so_at_once() -> None:
    async with serving(People) as (client, _):
        (text,) = await execute(client, ASK)
        assert "Nobody can be asked in this run" in text
        assert (await client.get("/v1/sessions/a/questions")).json() == []


@pytest.mark.usefixtures("impatient")
async def test_a_guide_client_is_answered_in_time_while_a_person_thinks_and_waits_on_by_a_word(
    asked: tuple[httpx2.AsyncClient, Pool],
) -> None:
    client, _ = asked
    (text,) = await execute(client, ASK)
    assert text.startswith("Cell 1 has asked a person, who has not answered yet.")
    assert "`# wait` alone" in text
    await client.post("/v1/sessions/a/questions/1", json={"answer": "blue"})
    assert await execute(client, "# wait") == ["blue"]


async def test_a_cell_is_listed_approved_and_executed(approved: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = approved
    executing = asyncio.ensure_future(execute(client, "log(1)"))
    one = await waiting(client, "approvals")
    assert {**one, "rule": ""} == {
        "number": 1, "cell": 1, "language": "python", "code": "log(1)", "effect": None, "rule": "", "screen": None,
    }  # fmt: skip
    assert (await client.post("/v1/sessions/a/approvals/1", json={"approve": True})).status_code == 204
    assert await executing == ["1"]


async def test_a_cell_that_is_denied_is_told_so_with_the_reason(approved: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, pool = approved
    executing = asyncio.ensure_future(execute(client, "log(1)"))
    await waiting(client, "approvals")
    await client.post("/v1/sessions/a/approvals/1", json={"approve": False, "reason": "Not today."})
    assert await executing == ["The cell was not executed: a person denied it. The reason given: Not today."]
    assert [cell.status for cell in read_run(pool.existing("a").run_dir).cells] == ["denied"]


@pytest.mark.parametrize(
    "body", [{}, {"approve": 1, "reason": 7}, {"approve": True, "reason": "x" * 2001}, {"approve": True, "x": 1}]
)
async def test_what_is_no_decision_is_refused_and_nothing_is_executed(
    approved: tuple[httpx2.AsyncClient, Pool], body: dict[str, object]
) -> None:
    client, _ = approved
    executing = asyncio.ensure_future(execute(client, "log(1)"))
    await waiting(client, "approvals")
    assert (await client.post("/v1/sessions/a/approvals/1", json=body)).status_code == 400
    await client.post("/v1/sessions/a/approvals/1", json={"approve": False})
    assert "a person denied it" in (await executing)[0]


@pytest.mark.usefixtures("impatient")
async def test_a_guide_client_makes_the_same_call_again_until_it_is_approved_and_it_runs_once(
    approved: tuple[httpx2.AsyncClient, Pool],
) -> None:
    client, pool = approved
    code = "n = globals().get('n', 0) + 1; log(n)"
    for _ in range(2):
        (text,) = await execute(client, code)
        assert text.startswith("Cell 1 has to be approved by a person, who has not decided yet. Nothing of it has run.")
    assert pool.existing("a").cells == 1
    await client.post("/v1/sessions/a/approvals/1", json={"approve": True})
    await until(lambda: pool.existing("a").executing is None)
    assert await execute(client, code) == ["1"]  # it has run meanwhile: this tells what came of it
    (text,) = await execute(client, code)  # and this is a new call, which has to be approved again
    assert text.startswith("Cell 2 has to be approved")


@pytest.mark.usefixtures("impatient")
async def test_other_code_is_not_executed_while_a_cell_waits_for_its_approval_and_a_word_gives_it_up(
    approved: tuple[httpx2.AsyncClient, Pool],
) -> None:
    client, _ = approved
    await execute(client, "log(1)")
    texts = await execute(client, "log(2)")
    assert texts[0].startswith("Cell 1 has to be approved by a person")
    assert texts[1].startswith("The code of this call was not executed.")
    assert "before it was executed" in (await execute(client, "# interrupt"))[0]
    assert (await client.get("/v1/sessions/a/approvals")).json() == []


async def test_a_session_that_is_closed_asks_nobody_any_more(approved: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = approved
    executing = asyncio.ensure_future(execute(client, "log(1)"))
    await waiting(client, "approvals")
    assert (await client.delete("/v1/sessions/a")).status_code == 204
    assert "The session was closed" in (await executing)[-1]
    assert (await client.get("/v1/sessions/a/approvals")).status_code == 404


async def test_a_session_whose_cell_waits_for_a_person_is_not_idle(approved: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, pool = approved
    executing = asyncio.ensure_future(execute(client, "log(1)"))
    await waiting(client, "approvals")
    assert pool.existing("a").idle_s == 0.0
    await client.post("/v1/sessions/a/approvals/1", json={"approve": True})
    await executing


async def test_the_description_has_the_routes_with_their_refusals(asked: tuple[httpx2.AsyncClient, Pool]) -> None:
    client, _ = asked
    paths = (await client.get("/openapi.json")).json()["paths"]
    for kind in ("questions", "approvals"):
        assert set(paths[f"/v1/sessions/{{session_id}}/{kind}"]) == {"get"}
        posted = paths[f"/v1/sessions/{{session_id}}/{kind}/{{number}}"]["post"]
        assert {"204", "400", "401", "404"} <= set(posted["responses"])


async def test_numbers_of_a_desk_are_never_given_twice() -> None:
    desk = Desk()
    first = asyncio.ensure_future(desk.ask(Question("a")))
    await asyncio.sleep(0)
    assert list(desk.questions) == [1]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.ensure_future(desk.ask(Question("b")))
    await asyncio.sleep(0)
    assert list(desk.questions) == [2]
    with pytest.raises(NothingWaits):
        desk.answer(1, "late")
    with pytest.raises(NothingWaits):
        desk.decide(2, Approval(approved=True))
    desk.answer(2, "now")
    assert await second == "now"
