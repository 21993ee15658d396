"""A model server that is busy, breaks off or falls silent: it is asked again, and what arrived is never asked for twice."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.faulty_server import Fault, FaultyServer

from cellwright.errors import ModelError
from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import Heard, Request, Response, Retried
from cellwright.model.fallback import FallbackModel
from cellwright.model.responses import ResponsesModel
from cellwright.record.reader import read_run
from cellwright.record.records import ModelFailed, ModelRequest, ModelResponse, Note
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = Request("Be good.", ({"type": "message", "role": "user", "content": "Do it."},), ())
QUICK = Retrying(attempts=3, first_s=0.001)
SOON = {"retry-after-ms": "1"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[FaultyServer]:
    async with FaultyServer() as server:
        yield server


@pytest.fixture
def server(running: FaultyServer) -> FaultyServer:
    running.play("Hi.")
    running.faults.clear()
    running.came.clear()
    return running


async def asked(
    server: FaultyServer, retrying: Retrying = QUICK, heard: list[Heard] | None = None, *, streams: bool = True
) -> Response:
    asking = Asking(retrying=retrying, streams=streams)
    model = ResponsesModel("m", base_url=server.base_url, api_key="any-key-does", asking=asking)
    try:
        return await model.respond(ASKED, [].append if heard is None else heard.append)
    finally:
        await model.close()


PASSING = {
    "busy": Fault("status", 429, headers=SOON),
    "overloaded": Fault("status", 503),
    "conflict": Fault("status", 409),
    "timeout at the server": Fault("status", 408),
    "cut before the first event": Fault("drop", after=0),
    "cut in the middle": Fault("drop", after=5),
}


@pytest.mark.parametrize(
    ("what", "streams"),
    [*((what, True) for what in PASSING), *((what, False) for what in PASSING if PASSING[what].kind == "status")],
)
async def test_what_passes_is_asked_about_again(server: FaultyServer, what: str, streams: bool) -> None:
    heard: list[Heard] = []
    response = await asked(server.has(PASSING[what], PASSING[what]), heard=heard, streams=streams)
    assert response.messages[0].text == "Hi."
    assert len(server.came) == 3
    assert len([one for one in heard if isinstance(one, Retried)]) == 2


async def test_response_that_arrived_before_the_connection_was_cut_is_not_asked_for_again(server: FaultyServer) -> None:
    assert (await asked(server.has(Fault("drop")))).messages[0].text == "Hi."
    assert len(server.came) == 1


async def test_stream_that_is_cut_in_the_middle_is_said_to_have_broken_off_and_not_to_be_out_of_reach(
    server: FaultyServer,
) -> None:
    cut = Fault("drop", after=5)
    with pytest.raises(ModelError) as caught:
        await asked(server.has(*[cut] * QUICK.attempts))
    assert str(caught.value) == (
        "The model server broke off: the connection was lost after part of the response had come, which is thrown away (peer closed "
        "connection without sending complete message body (incomplete chunked read)). Usually a passing fault of the server, or one that "
        "speaks another dialect. It was asked 3 times. What was executed before is recorded, and nothing was executed because of this "
        "request. Try again."
    )


async def test_stream_that_falls_silent_is_asked_for_again(server: FaultyServer) -> None:
    patience = Retrying(attempts=2, first_s=0.001, idle_s=0.2)
    heard: list[Heard] = []
    assert (await asked(server.has(Fault("silence", after=3)), patience, heard)).messages[0].text == "Hi."
    assert [one.reason.partition(". It")[0] for one in heard if isinstance(one, Retried)] == [
        "The model server broke off: nothing came for 0.2 s"
    ]


async def test_silence_after_the_end_is_not_waited_for(server: FaultyServer) -> None:
    patience = Retrying(attempts=1, idle_s=60)
    began = time.monotonic()
    assert (await asked(server.has(Fault("silence")), patience)).messages[0].text == "Hi."
    assert time.monotonic() - began < 30  # the wait that is tested for is 60 s


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_request_that_takes_too_long_in_all_is_made_again(server: FaultyServer, streams: bool) -> None:
    patience = Retrying(attempts=2, first_s=0.001, total_s=0.3)
    response = await asked(server.has(Fault("silence", after=0)), patience, streams=streams)
    assert (response.messages[0].text, len(server.came)) == ("Hi.", 2)


async def test_spent_quota_is_not_asked_about_again(server: FaultyServer) -> None:
    with pytest.raises(ModelError, match="quota is spent") as caught:
        await asked(server.has(Fault("status", 429, "insufficient_quota", headers=SOON)))
    assert len(server.came) == 1
    assert (caught.value.code, caught.value.may_pass) == ("insufficient_quota", False)


async def test_error_has_the_apis_own_word_for_it(server: FaultyServer) -> None:
    with pytest.raises(ModelError) as caught:
        await asked(server.has(Fault("status", 400, "context_length_exceeded")))
    assert (caught.value.code, caught.value.refused_with, len(server.came)) == ("context_length_exceeded", 400, 1)


async def test_server_is_not_asked_before_it_said(server: FaultyServer) -> None:
    response = await asked(server.has(Fault("status", 429, headers={"retry-after-ms": "150"})))
    assert server.came[1] - server.came[0] >= 0.150
    assert response.waited_ms >= 150


async def driven(*models: ResponsesModel) -> Outcome:
    model = models[0] if len(models) == 1 else FallbackModel(models)
    try:
        return await run("Do it.", model=model, backend=FakeBackend())
    finally:
        await model.close()


async def test_each_try_and_what_was_waited_is_in_the_journal(server: FaultyServer) -> None:
    server.has(Fault("status", 503, headers={"retry-after-ms": "20"}), Fault("drop", after=4))
    model = ResponsesModel("m", base_url=server.base_url, api_key="k", asking=Asking(retrying=QUICK))
    outcome = await driven(model)
    records = read_run(outcome.run_dir).records
    notes = [record.text for record in records if isinstance(record, Note) and record.topic == "retry"]
    assert ["status 503" in notes[0], "broke off" in notes[1]] == [True, True]
    assert len(notes) == 2
    (response,) = [record for record in records if isinstance(record, ModelResponse)]
    assert response.waited_ms >= 20
    assert (outcome.status, outcome.turns) == ("done", 1)


async def test_no_cell_runs_twice_because_of_a_retry(server: FaultyServer) -> None:
    server.play("```python\nx = globals().get('x', 0) + 1\nlog(x)\n```\n---\nexpect: 1\nDone.")
    server.has(Fault("drop", after=5), Fault("drop", after=6), Fault("status", 500))
    patience = Retrying(attempts=4, first_s=0.001)
    outcome = await driven(ResponsesModel("m", base_url=server.base_url, api_key="k", asking=Asking(retrying=patience)))
    assert (outcome.status, outcome.cells, len(server.came)) == ("done", 1, 5)


async def test_another_model_answers_where_the_first_is_gone_and_gets_no_reasoning_of_its(
    server: FaultyServer,
) -> None:
    authors: dict[str, str] = {}
    asking = Asking(retrying=Retrying(attempts=2, first_s=0.001))
    models = [
        ResponsesModel(name, base_url=server.base_url, api_key="k", asking=asking, authors=authors)
        for name in ("one", "two")
    ]
    server.play("```python\nlog(1)\n```\n---\nexpect: 1\nDone.")

    class Gone(FallbackModel):
        async def respond(self, request, on_delta):
            if any(item.get("type") == "function_call_output" for item in request.history):
                server.has(Fault("status", 503, headers=SOON), Fault("status", 503, headers=SOON))
            return await super().respond(request, on_delta)

    model = Gone(models)
    outcome = await run("Do it.", model=model, backend=FakeBackend())
    await model.close()
    assert outcome.status == "done", outcome.reason
    asked_models = [record.model for record in read_run(outcome.run_dir).records if isinstance(record, ModelRequest)]
    assert asked_models == ["one", "one", "two"]
    assert [body["model"] for body in server.requests] == ["one", "one", "one", "two"]
    kinds = [item["type"] for item in server.requests[-1]["input"]]
    assert kinds == ["message", "function_call", "function_call_output"]


async def test_where_retries_are_used_up_the_run_ends_with_the_status(server: FaultyServer) -> None:
    server.has(*[Fault("status", 503, headers=SOON)] * 3)
    outcome = await driven(ResponsesModel("m", base_url=server.base_url, api_key="k", asking=Asking(retrying=QUICK)))
    (failed,) = [record for record in read_run(outcome.run_dir).records if isinstance(record, ModelFailed)]
    assert (outcome.status, failed.http_status) == ("failed", 503)
    assert "It was asked 3 times." in failed.reason
