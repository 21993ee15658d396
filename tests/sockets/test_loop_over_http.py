"""The same loop over real HTTP: the openai SDK on one side, the emulator on the other, which refuses what the API would."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from cellwright.budget import Budget
from cellwright.conversation import conversation_of
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.responses import ResponsesModel
from cellwright.progress import Arriving
from cellwright.record.reader import read_run
from cellwright.record.records import ModelFailed
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = Asking(retrying=Retrying(attempts=4, first_s=0.001))
"""As patient as ever, but in less time: what waits is told of in tests of its own."""

Play = Callable[..., Awaitable[tuple[Outcome, Emulator]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulator() -> AsyncIterator[Emulator]:
    """One server for all tests here: starting and ending one takes 0.2 s."""
    async with Emulator(Script.parse("Nothing.")) as running:
        yield running


@pytest.fixture
def played(emulator: Emulator) -> Play:
    async def play(script: str, **more) -> tuple[Outcome, Emulator]:
        emulator.play(Script.parse(script, form=more.pop("form", "markdown")))
        model = ResponsesModel("m", base_url=emulator.base_url, api_key="k", asking=more.pop("asking", QUICK))
        try:
            return await run("Do it.", model=model, backend=FakeBackend(), **more), emulator
        finally:
            await model.close()

    return play


LOOKS = """
I count.

```python
x = 41
log("first")
```
---
expect: first

```python
log(x + 1)
```
---
expect: 42
expect-not: first

It is 42.
"""


async def test_whole_run_over_http(played: Play):
    outcome, emulator = await played(LOOKS)
    assert (outcome.status, outcome.summary, outcome.turns, outcome.cells) == ("done", "It is 42.", 3, 2)
    assert outcome.usage.input_tokens > 100
    assert outcome.usage.output_tokens > 10
    assert len(emulator.requests) == 3


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("chains", [True, False])
async def test_custom_tools_are_called_with_the_code_itself(played: Play, streams: bool, chains: bool):
    asking = replace(QUICK, custom_tools=True, streams=streams, chains=chains)
    outcome, emulator = await played(LOOKS, asking=asking)
    assert (outcome.status, outcome.summary, outcome.cells) == ("done", "It is 42.", 2)
    run_ = read_run(outcome.run_dir)
    assert [cell.opened.code for cell in run_.stored_cells] == ['x = 41\nlog("first")', "log(x + 1)"]
    answers = [item for item in emulator.requests[-1]["input"] if str(item.get("type")).endswith("_output")]
    assert {item["type"] for item in answers} == {"custom_tool_call_output"}
    assert answers[-1]["output"] == [{"type": "input_text", "text": "42"}]
    assert len(answers) == (1 if chains else 2)


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_custom_call_of_a_tool_that_was_offered_as_a_function_is_never_executed(played: Play, streams: bool):
    script = "turns:\n- custom_call: {name: exec_py, input: log(1)}\n- say: Done.\n"
    outcome, _ = await played(script, form="yaml", asking=replace(QUICK, streams=streams))
    assert (outcome.status, outcome.cells) == ("failed", 0)
    assert outcome.reason == "The model used a tool that was not offered: custom_tool_call."
    begun = conversation_of(read_run(outcome.run_dir))
    assert begun.calls == (), "nor when the run goes on"
    assert [item["type"] for item in begun.history] == ["message"]


async def test_every_request_is_stateless_and_carries_the_instructions(played: Play):
    _, emulator = await played(LOOKS)
    for body in emulator.requests:
        assert body["store"] is False
        assert body["parallel_tool_calls"] is False
        assert "previous_response_id" not in body
        assert body["instructions"].startswith("You do a task")
        assert [tool["name"] for tool in body["tools"]] == ["exec_py", "exec_js"]
    kinds = [item["type"] for item in emulator.requests[1]["input"]]
    assert kinds == ["message", "reasoning", "message", "function_call", "function_call_output"]
    assert emulator.requests[1]["input"][2]["phase"] == "commentary"


async def test_model_that_does_not_see_what_it_expects_ends_the_run(played: Play):
    outcome, _ = await played(LOOKS.replace("expect: 42", "expect: 43"))
    assert outcome.status == "failed"
    assert "expected '43'" in str(outcome.reason)
    assert "42" in str(outcome.reason)


ODD = {
    "bad JSON": ("```call exec_py\n{code\n```\n---\nexpect: not JSON\nSorry.", "done", 0),
    "missing code": ('```call exec_py\n{"cod": "1"}\n```\n---\nexpect: no string "code"\nSorry.', "done", 0),
    "unknown tool": ('```call bash\n{"code": "ls"}\n```\n---\nexpect: no tool \'bash\'\nSorry.', "done", 0),
    "two calls": ("```python\nlog('a')\n```\n```python\nlog('b')\n```\n---\nexpect: a\nexpect: b\nDone.", "done", 2),
    "two calls, one bad": (
        "```python\nlog(1)\n```\n```call exec_py\n{\n```\n---\nexpect: another call\nOh.",
        "done",
        0,
    ),
    "commentary only": ("phase: commentary\nHm.\n---\n```python\nlog(1)\n```\n---\nexpect: 1\nDone.", "done", 1),
    "commentary for ever": ("\n---\n".join(["phase: commentary\nHm."] * 5), "stuck", 0),
    "no phase": ("phase: none\nDone.", "done", 0),
    "refusal": ("refusal: I won't.", "failed", 0),
    "incomplete": ("status: incomplete max_output_tokens\n```python\nlog(1)\n```", "failed", 0),
    "failed": ("status: failed server_error\nHalf a", "failed", 0),
    "429, then well": ("http: 429\nDone.", "done", 0),
    "500 twice, then well": ("http: 500 2\nDone.", "done", 0),
    "429 for ever": ("http: 429 99\nDone.", "failed", 0),
    "400": ("http: 400 99\nDone.", "failed", 0),
    "401": ("http: 401 99\nDone.", "failed", 0),
    "stream that breaks off": ("break\n```python\nlog('never')\n```", "failed", 0),
    "script that is over": ("```python\nlog(1)\n```", "failed", 1),
}


@pytest.mark.parametrize("title", ODD)
async def test_odd_response(played: Play, title: str):
    script, status, cells = ODD[title]
    outcome, _ = await played(script)
    assert (outcome.status, outcome.cells) == (status, cells), outcome.reason
    assert (outcome.reason is None) == (status == "done")
    last = json.loads((outcome.run_dir / "journal.jsonl").read_text().splitlines()[-1])
    assert (last["type"], last["status"]) == ("run_closed", status)


async def test_status_of_a_refusal_is_recorded(played: Play):
    outcome, _ = await played("http: 401 99\nDone.")
    (failed,) = [record for record in read_run(outcome.run_dir).records if isinstance(record, ModelFailed)]
    assert (failed.turn, failed.http_status, outcome.turns) == (1, 401, 0)


async def test_a_stream_that_breaks_off_was_refused_with_no_status(played: Play):
    outcome, _ = await played(ODD["stream that breaks off"][0])
    (failed,) = [record for record in read_run(outcome.run_dir).records if isinstance(record, ModelFailed)]
    assert failed.http_status is None


async def test_retry_is_not_a_turn(played: Play):
    outcome, emulator = await played("http: 503 2\n```python\nlog(1)\n```\n---\nexpect: 1\nDone.")
    assert (outcome.status, outcome.turns, len(emulator.requests)) == ("done", 2, 4)


async def test_budget_ends_with_the_scripts_own_summary(played: Play):
    script = "```python\nlog(1)\n```\n---\n```python\nlog(2)\n```\n---\nwrap-up\nexpect: 1\nOne is done."
    outcome, emulator = await played(script, budget=Budget(turns=1))
    assert (outcome.status, outcome.summary) == ("budget", "One is done.")
    assert emulator.requests[-1]["tool_choice"] == "none"


async def test_code_arrives_in_pieces(played: Play):
    pieces: list[str] = []

    def see(progress) -> None:
        if isinstance(progress, Arriving) and progress.delta.kind == "arguments":
            assert progress.delta.name == "exec_py"
            pieces.append(progress.delta.text)

    await played("```python\nlog('" + "x" * 100 + "')\n```\n---\nDone.", on_progress=see)
    assert len(pieces) > 3
    assert json.loads("".join(pieces)) == {"code": "log('" + "x" * 100 + "')"}


async def test_script_of_the_documentation_plays_as_it_stands(played: Play):
    page = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")
    script = page.partition("````markdown\n")[2].partition("````\n")[0]
    outcome, _ = await played(script)
    assert (outcome.status, outcome.summary) == ("done", "It has 10 letters; in capitals it is CELLWRIGHT.")


async def test_yaml_script_of_the_documentation_is_played_to_its_end_as_it_stands(played: Play):
    page = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")
    script = page.partition("```yaml\n")[2].partition("```\n")[0]
    outcome, server = await played(script, form="yaml")
    assert (outcome.status, outcome.summary) == ("done", "It has 10 letters; in capitals it is CELLWRIGHT.")
    assert [seen.fault for seen in server.seen] == [
        None,
        "rate_limited",
        "rate_limited",
        "malformed_arguments",
        None,
        None,
    ]


async def test_every_line_that_a_script_may_have_is_documented():
    page = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")
    for word in ("expect", "expect-not", "phase", "refusal", "status", "http", "wait", "fault", "break", "wrap-up"):
        assert f"| `{word}" in page
