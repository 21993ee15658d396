"""The emulator as other people's tests have it: with the plain openai SDK, synchronous or not, and as pytest's fixture."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import openai
import pytest

from cellwright.emulator.faults import FAULTS
from cellwright.errors import FileMissing, UsageError
from cellwright.testing import EmulatedServer, PlannedFault, Script, ServerRules, emulator

PAGE = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")
TOOLS = [{"type": "function", "name": "f", "strict": False, "parameters": {"type": "object", "properties": {}}}]


def client_of(server: EmulatedServer, retries: int = 0) -> openai.OpenAI:
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=retries, http_client=http)


def test_synchronous_client_is_served_and_what_it_asked_is_seen():
    with emulator("```call f\n{}\n```\n---\nexpect: 42\nDone.") as server, client_of(server) as client:
        first = client.responses.create(model="m", input="Do it.", tools=TOOLS)
        (call,) = [item for item in first.output if item.type == "function_call"]
        answer = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
        last = client.responses.create(model="m", input=[answer], previous_response_id=first.id, tools=TOOLS)
        assert last.output_text == "Done."
        one, two = server.requests
        assert (one.turn, one.tools, one.answers, one.streams) == (1, ("f",), {}, False)
        assert (two.turn, two.previous_response_id, two.answers) == (2, first.id, {call.call_id: "42"})
        assert [item["type"] for item in two.history] == [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
        ]


async def test_asynchronous_client_is_served():
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    with emulator("Hi.") as server:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", http_client=http) as client:
            assert (await client.responses.create(model="m", input="Do it.")).output_text == "Hi."


def test_faults_and_rules_are_said_in_words_or_as_values():
    faults = ["rate_limited_ms", PlannedFault("overloaded")]
    with emulator("Hi.", faults=faults, rules=ServerRules(max_images=0)) as server, client_of(server, 2) as client:
        assert client.responses.create(model="m", input="Do it.").output_text == "Hi."
        assert [(one.status, one.fault, one.retry) for one in server.requests] == [
            (429, "rate_limited_ms", 0),
            (529, "overloaded", 1),
            (200, None, 2),
        ]


def test_script_is_a_value_a_text_or_a_file(tmp_path: Path):
    (tmp_path / "s.yaml").write_text("turns: [{say: Hi.}]")
    for script, form in (
        (Script.parse("Hi."), "markdown"),
        ("turns: [{say: Hi.}]", "yaml"),
        (tmp_path / "s.yaml", "markdown"),
    ):
        with emulator(script, form=form) as server, client_of(server) as client:
            assert client.responses.create(model="m", input="Do it.").output_text == "Hi."


def test_another_script_can_be_played_by_the_same_server():
    with emulator("One.") as server, client_of(server) as client:
        client.responses.create(model="m", input="Do it.")
        server.play("Two.", faults=["rate_limited_silent@1x0"])
        assert server.requests == ()
        assert client.responses.create(model="m", input="Do it.").output_text == "Two."


def test_requests_that_come_too_fast_are_counted():
    with emulator("Hi.", rules=ServerRules(requests_per_second=1)) as server, client_of(server) as client:
        client.responses.create(model="m", input="Do it.")
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model="m", input="Do it.")
        assert server.too_fast == 1


def test_what_cannot_be_started_is_said_and_leaves_no_thread(tmp_path: Path):
    before = threading.active_count()
    with pytest.raises(UsageError, match="no fault 'nothing'"), emulator("Hi.", faults=["nothing"]):
        pass
    with pytest.raises(FileMissing), emulator(tmp_path / "none.md"):
        pass
    with emulator("Hi."):
        pass
    assert threading.active_count() == before


@pytest.mark.slow
def test_example_of_the_manual_is_a_test_that_passes(tmp_path: Path):
    (example,) = re.findall(r"```python\n(import openai.*?)```", PAGE, re.DOTALL)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_agent.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-q", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert re.search(r"^[3-9] passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_every_fault_has_its_row_in_the_manual():
    table = PAGE.partition("| Fault | What happens | To |")[2].partition("\n\n")[0]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    to = {"both": "any", "streamed": "streamed", "whole": "not streamed"}
    assert [(row[0], row[2]) for row in rows] == [(fault.name, to[fault.applies]) for fault in FAULTS]
    assert [row[1].replace("`", "") for row in rows] == [fault.sentence.replace("`", "") for fault in FAULTS]


@pytest.mark.parametrize("form", ["markdown", "yaml"])
def test_scripts_of_the_manual_can_be_played(form: str):
    written = {"markdown": r"````markdown\n(.*?)````\n", "yaml": r"```yaml\n(turns:.*?)```\n"}[form]
    found = re.findall(written, PAGE, re.DOTALL)
    assert found
    for text in found:
        assert Script.parse(text, form=form).turns


def test_every_word_of_a_turn_in_yaml_has_its_row_in_the_manual():
    from cellwright.emulator import yaml_script

    assert [word for word in yaml_script._TURN if f"| `{word}`" not in PAGE] == []
    assert [word for word in yaml_script._ITEMS if f"`{word}" not in PAGE] == []
