"""What a script in YAML says, that it says all the other form does, and how what is wrong with one is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.script import WRAP_UP, Script, ScriptedCall, ScriptedTurn, ScriptedUsage
from cellwright.errors import UsageError


def parsed(text: str) -> Script:
    return Script.parse(text, name="s.yaml", form="yaml")


def turn(text: str) -> ScriptedTurn:
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    (only,) = parsed(f"turns:\n  -\n{lines}\n").turns
    return only


BOTH = [
    ("Hi.", "turns:\n- say: Hi."),
    (
        "Look.\n```python\nlog(1)\n```\n```js\nf()\n```",
        "turns:\n- say: Look.\n  python: log(1)\n  javascript: |\n    f()\n",
    ),
    ('```call bash\n{"a": 1}\n```', "turns:\n- call: {name: bash, arguments: {a: 1}}"),
    ("```call bash\n{a\n```", 'turns:\n- call: {name: bash, arguments: "{a"}'),
    (
        "expect: 42\nexpect: image\nexpect-not: no\nphase: none\nSeen.",
        "turns:\n- expect: [42, image]\n  expect_not: no\n  phase: none\n  say: Seen.",
    ),
    ("refusal: I won't.", "turns:\n- refuse: I won't.\n"),
    ("status: incomplete max_output_tokens\nI", "turns:\n- status: incomplete\n  reason: max_output_tokens\n  say: I"),
    ("http: 503 2\nwait: 0.5\nHi.", "turns:\n- http: {status: 503, times: 2}\n  wait: 0.5\n  say: Hi."),
    ("break\nHi.", "turns:\n- break: true\n  say: Hi."),
    ("fault: stalled\nfault: rate_limited x2\nHi.", "turns:\n- fault: [stalled, rate_limited x2]\n  say: Hi."),
    ("Hi.\n---\nwrap-up\nexpect: 1\nOver.", "turns:\n- say: Hi.\nwrap_up:\n  expect: 1\n  say: Over."),
]


@pytest.mark.parametrize(("markdown", "yaml"), BOTH)
def test_both_forms_say_the_same(markdown: str, yaml: str):
    one, other = Script.parse(markdown), parsed(yaml)

    # a plan in YAML knows its turn by number, one in the other form by its place
    def said(script: Script) -> list[object]:
        return [
            {**vars(turn), "faults": [(fault.name, fault.times) for fault in turn.faults]}
            for turn in (*script.turns, script.wrap_up)
        ]

    assert said(one) == said(other)


def test_suffix_tells_the_form(tmp_path: Path):
    for name, text in (("a.yaml", "turns: [{say: Hi.}]"), ("b.YML", "turns: [{say: Hi.}]"), ("c.md", "Hi.")):
        (tmp_path / name).write_text(text)
        assert Script.read(tmp_path / name).turns[0].text == "Hi."


def test_output_stands_in_the_order_in_which_it_is_written():
    output = turn("""
output:
  - say: First.
    phase: commentary
  - python: log(1)
  - reasoning: I wonder.
  - custom_call: {name: exec_js, input: f(), id: call_own}
  - refuse: No.
  - item: {type: web_search_call, id: ws_1, status: completed, action: {type: search, query: x}}
""").output
    assert output is not None
    assert [item["type"] for item in output] == [
        "message",
        "function_call",
        "reasoning",
        "custom_tool_call",
        "message",
        "web_search_call",
    ]
    assert output[0]["phase"] == "commentary"
    assert output[1] == {"type": "function_call", "name": "exec_py", "arguments": json.dumps({"code": "log(1)"})}
    assert output[2]["summary"] == [{"type": "summary_text", "text": "I wonder."}]
    assert output[3] == {"type": "custom_tool_call", "name": "exec_js", "input": "f()", "call_id": "call_own"}
    assert output[5]["action"] == {"type": "search", "query": "x"}


def test_calls_of_one_kind_are_a_list():
    assert turn("calls:\n  - python: a\n  - python: b\n  - custom_call: {name: c, input: d}").calls == (
        ScriptedCall("exec_py", '{"code": "a"}'),
        ScriptedCall("exec_py", '{"code": "b"}'),
        ScriptedCall("c", "d", is_custom=True),
    )


def test_usage_and_faults_are_said_in_full():
    said = turn(
        "say: Hi.\npace: 0.5\nusage: {input_tokens: 7, reasoning_tokens: 2}\nfault: {name: stalled, seconds: 1.5}"
    )
    assert said.usage == ScriptedUsage(input_tokens=7, reasoning_tokens=2)
    assert said.faults == (PlannedFault("stalled", 1, 1, 1.5),)
    assert said.pace_s == 0.5


def test_text_stands_as_it_is_written_whatever_yaml_takes_it_for():
    assert turn("say: yes\nexpect: [1.0, on, 2026-01-01, null]").expects == ("1.0", "on", "2026-01-01", "null")


def test_script_that_says_nothing_of_it_wraps_up_as_ever():
    assert parsed("turns: [{say: Hi.}]").wrap_up == WRAP_UP


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)

WRONG = {
    "": "s.yaml is empty",
    "turns: []": "s.yaml has no turn",
    "turns: {say: Hi.}": "line 1: `turns` must be a list",
    "- say: Hi.": "line 1: A script must be a mapping",
    "turn: [{say: Hi.}]": "line 1: A script has no 'turn'. It may have: turns, wrap_up",
    "turns:\n- say: Hi.\n- pyton: log(1)": "s.yaml, turn 2, line 3: A turn has no 'pyton'. It may have: say, ",
    "turns:\n- say: Hi.\n  say: Ho.": "line 3: The key 'say' stands here twice",
    "turns:\n- say: [1]": "turn 1, line 2: `say` must be a text",
    "turns:\n- say:": "turn 1, line 2: `say` must be a text",
    "turns:\n- phase: loud": "line 2: There is no phase 'loud'. Write commentary, final_answer or none",
    "turns:\n- say: Hi.\n  output: [{say: Ho.}]": "so `say` cannot stand beside it",
    "turns:\n- output: [{say: a, python: b}]": "An item of `output` says what it is by one word",
    "turns:\n- output: [{python: b, phase: none}]": "`say` may have a `phase`",
    "turns:\n- output: [{item: {id: x}}]": "a mapping with its `type`",
    "turns:\n- call: {name: f}": "`call` needs its arguments: `call: {name: exec_py",
    "turns:\n- call: {name: f, input: x}": "`call` has no 'input'",
    "turns:\n- calls: [{python: a}]\n  javascript: b": "A turn has either `calls` or one call of a kind",
    "turns:\n- http: {times: 2}": "`http` needs its `status`",
    "turns:\n- http: {status: often}": "`status` must be a number from 0 on, and is 'often'",
    "turns:\n- http: {status: 429, times: 1.5}": "`times` must be a whole number",
    "turns:\n- wait: -1": "`wait` must be a number from 0 on",
    "turns:\n- break: maybe": "`break` must be true or false",
    "turns:\n- fault: no_such": "s.yaml, turn 1, line 2: There is no fault 'no_such'",
    "turns:\n- fault: stalled@2": "cannot name another",
    "turns:\n- fault: {times: 2}": "A fault needs its name",
    "turns:\n- usage: {tokens: 2}": "`usage` has no 'tokens'",
    "turns: [": "this is not YAML",
    "turns:\n\t- say: Hi.": "line 2: this is not YAML",
    "turns: [{say: Hi.}]\n---\nturns: []": "this is not YAML",
    "turns:\n- say: !!python/object/apply:os.system [ls]": "is not plain data",
    "turns:\n- say: !thing x": "is not plain data",
    "turns: &a [*a]": "s.yaml, line 1: The script comes to more than",
    BOMB: "comes to more than 20000 values",
    "[" * 5000: "s.yaml",
    "turns: " + "[" * 60 + "]" * 60: "comes to more than",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_script_that_is_not_one_says_where_and_what_to_write(text: str):
    with pytest.raises(UsageError) as raised:
        parsed(text)
    assert WRONG[text] in str(raised.value)
    assert "Nothing was started." in str(raised.value)
