"""A run's model side, played back: to the loop that made it, to a foreign client, and not at all where the record is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from cellwright.budget import Budget
from cellwright.emulator.recorded import script_of
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.errors import JournalCorrupt, UsageError
from cellwright.loop import Outcome, run
from cellwright.record.reader import read_run
from cellwright.record.records import ModelResponse
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, says

SCRIPT = "I count.\n```python\nlog(1)\n```\n```python\nlog(2)\n```\n---\n```python\nlog(3)\n```\n---\nDone.\n---\nwrap-up\nTwo of three."
OTHERS = """
turns:
- output:
    - item: {type: message, id: m-1, role: assistant, content: [{type: output_text, text: I look., annotations: []}]}
    - item: {type: function_call, id: f-1, call_id: tooluse-1, name: exec_py, arguments: '{"code": "log(1)"}'}
- output:
    - item: {type: message, id: m-2, role: assistant, content: [{type: output_text, text: Seen., annotations: []}]}
"""


async def driven(script: Script, **more) -> Outcome:
    async with Emulator(script) as server:
        return await run("Do it.", base_url=server.base_url, api_key="k", backend=FakeBackend(), **more)


def answered(outcome: Outcome) -> list[object]:
    return [record.response for record in read_run(outcome.run_dir).records if isinstance(record, ModelResponse)]


@pytest.mark.parametrize(("script", "form"), [(SCRIPT, "markdown"), (OTHERS, "yaml")])
async def test_run_played_back_is_the_same_run(script: str, form: str):
    first = await driven(Script.parse(script, form=form))
    again = await driven(script_of(read_run(first.run_dir)))
    assert answered(again) == answered(first)
    assert (again.status, again.summary, again.cells) == (first.status, first.summary, first.cells)
    assert again.status == "done"


async def test_run_that_was_out_of_budget_is_summed_up_as_it_was():
    first = await driven(Script.parse(SCRIPT), budget=Budget(turns=1))
    again = await driven(script_of(read_run(first.run_dir)), budget=Budget(turns=1))
    assert (again.status, again.summary) == ("budget", "Two of three.")


async def test_client_of_a_run_must_answer_its_calls_and_may_answer_otherwise():
    first = await driven(Script.parse(SCRIPT))
    tools = [{"type": "function", "name": "exec_py", "strict": False, "parameters": {"type": "object"}}]
    async with Emulator(script_of(read_run(first.run_dir))) as server:
        headers = {"Authorization": "Bearer k"}
        async with httpx2.AsyncClient(
            base_url=server.base_url, headers=headers, trust_env=False, verify=False
        ) as client:
            task = {"role": "user", "content": "Something else."}
            body = {"model": "other", "tools": tools, "input": [task]}
            output = (await client.post("/responses", json=body)).json()["output"]
            calls = [item["call_id"] for item in output if item["type"] == "function_call"]
            answers = [{"type": "function_call_output", "call_id": one, "output": "otherwise"} for one in calls]
            refused = await client.post("/responses", json={**body, "input": [task, *output, answers[0]]})
            taken = await client.post("/responses", json={**body, "input": [task, *output, *answers]})
    assert f"No tool output found for function call {calls[1]}" in refused.json()["error"]["message"]
    assert taken.json()["output"] == answered(first)[1]["output"]


async def test_damaged_record_is_not_played():
    first = await driven(Script.parse(SCRIPT))
    journal = first.run_dir / "journal.jsonl"
    journal.write_text(journal.read_text().replace("I count.", "I counted."))
    with pytest.raises(JournalCorrupt):
        script_of(read_run(first.run_dir))


async def test_run_without_a_model_has_nothing_to_play(tmp_path: Path):
    async with Session.open(backend=FakeBackend(), runs=tmp_path) as session:
        await session.execute("log(1)")
    with pytest.raises(UsageError, match="has no response of a model"):
        script_of(read_run(session.run_dir))


async def test_run_by_a_model_that_is_no_server_of_the_api_is_not_played(tmp_path: Path):
    said = says("Done.")
    odd = ScriptedModel([said.__class__(said.id, "completed", said.items, said.usage, raw={"choices": []})])
    outcome = await run("Do it.", model=odd, backend=FakeBackend(), runs=tmp_path)
    with pytest.raises(UsageError, match=r"Response 1 of the run .* is not one of the Responses API"):
        script_of(read_run(outcome.run_dir))


async def test_faults_can_happen_to_a_run_that_is_played_back():
    first = await driven(Script.parse(SCRIPT))
    script = script_of(read_run(first.run_dir)).with_faults(())
    assert json.dumps([turn.recorded for turn in script.turns]) == json.dumps(answered(first))
