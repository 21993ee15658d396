"""A script written in YAML: all that the other form can say, and the rest.

Flows in: a text. Flows out: a `Script`. Decided here: the format, which `docs/emulator.md` describes; an example:

    turns:
      - say: I open the form first.
        python: |
          await page.goto("http://127.0.0.1:8000/")
          display(pyautogui.screenshot())
      - expect: [image, Expense report]
        fault: rate_limited x2
        say: The form is filled and sent.
    wrap_up:
      say: It is half filled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.script import WRAP_UP, Script, ScriptedCall, ScriptedTurn, ScriptedUsage
from cellwright.emulator.yaml_nodes import Located, read
from cellwright.errors import UsageError
from cellwright.model.base import Item, Phase

_SCRIPT: Final = {
    "turns": "turns: [...]",
    "wrap_up": "wrap_up: {say: ...}",
}
_TURN: Final = {
    "say": "say: Done.",
    "phase": "phase: commentary",
    "refuse": "refuse: I will not.",
    "reasoning": "reasoning: First I look.",
    "python": "python: log(1)",
    "javascript": "javascript: console.log(1)",
    "call": "call: {name: exec_py, arguments: {code: log(1)}}",
    "custom_call": "custom_call: {name: exec_py, input: log(1)}",
    "calls": "calls: [{python: log(1)}]",
    "output": "output: [{say: Done.}]",
    "usage": "usage: {input_tokens: 100}",
    "status": "status: incomplete",
    "reason": "reason: max_output_tokens",
    "expect": "expect: a text",
    "expect_not": "expect_not: a text",
    "http": "http: {status: 429, times: 2}",
    "wait": "wait: 0.5",
    "pace": "pace: 0.05",
    "break": "break: true",
    "fault": "fault: rate_limited x2",
}
"""What a turn may have, and how it is written."""
_CALLS: Final = {name: _TURN[name] for name in ("python", "javascript", "call", "custom_call")}
_ITEMS: Final = {name: _TURN[name] for name in ("reasoning", "say", "refuse")} | _CALLS | {"item": "item: {type: ...}"}
_USAGE: Final = {
    name: f"{name}: 100" for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
}
_PHASES: Final[dict[str, Phase | None]] = {"commentary": "commentary", "final_answer": "final_answer", "none": None}
_TOOLS: Final = {"python": "exec_py", "javascript": "exec_js"}


def parse(text: str, name: str) -> Script:
    """Read a script.

    Raises:
        UsageError: It is not written as it must be; says where.
    """
    said = read(text, name).fields("A script", _SCRIPT)
    if "turns" not in said or not said["turns"].elements("`turns`"):
        raise UsageError(f"{name} has no turn. Nothing was started. Write `turns:` and a list below it.")
    listed = said["turns"].elements("`turns`")
    turns = tuple(_turn(node.within(f"{name}, turn {number}"), number) for number, node in enumerate(listed, 1))
    wrap_up = _turn(said["wrap_up"].within(f"{name}, wrap_up"), None) if "wrap_up" in said else WRAP_UP
    return Script(turns, wrap_up, name)


def _turn(node: Located, number: int | None) -> ScriptedTurn:
    said = node.fields("A turn", _TURN)
    if "output" in said and (
        both := [name for name in ("say", "refuse", "reasoning", "calls", *_CALLS) if name in said]
    ):
        said["output"].fail(
            f"`output` is all that the turn says, so `{both[0]}` cannot stand beside it. Put it into the list."
        )
    calls = _calls(said)
    output = tuple(_item(part) for part in said["output"].elements("`output`")) if "output" in said else None
    expected = _texts(said, "expect")
    http = said["http"].fields("`http`", {"status": "status: 429", "times": "times: 2"}) if "http" in said else {}
    if "http" in said and "status" not in http:
        said["http"].fail("`http` needs its `status`: {status: 429, times: 2}.")
    return ScriptedTurn(
        text=said["say"].text("`say`").strip() if "say" in said else "",
        calls=calls,
        phase=_phase(said.get("phase"), is_last=not calls),
        refusal=said["refuse"].text("`refuse`") if "refuse" in said else None,
        reasoning=said["reasoning"].text("`reasoning`") if "reasoning" in said else "",
        output=output,
        usage=_usage(said.get("usage")),
        status=said["status"].text("`status`") if "status" in said else "completed",
        reason=said["reason"].text("`reason`") if "reason" in said else None,
        expects=tuple(word for word in expected if word != "image"),
        expects_not=_texts(said, "expect_not"),
        expects_image="image" in expected,
        http_status=http["status"].count("`status`") if http else None,
        http_times=http["times"].count("`times`") if "times" in http else 1,
        wait_s=said["wait"].number("`wait`") if "wait" in said else 0.0,
        pace_s=said["pace"].number("`pace`") if "pace" in said else 0.0,
        breaks=said["break"].flag("`break`") if "break" in said else False,
        wrap_up=number is None,
        faults=_faults(said.get("fault"), number),
    )


def _calls(said: Mapping[str, Located]) -> tuple[ScriptedCall, ...]:
    """Return the calls of a turn in the order in which they stand there; `calls` is a list of them."""
    calls = [_call(name, node) for name, node in said.items() if name in _CALLS]
    if "calls" not in said:
        return tuple(calls)
    if calls:
        said["calls"].fail("A turn has either `calls` or one call of a kind, since the order would not be clear.")
    return tuple(_call(*_only(part, "A call", _CALLS)) for part in said["calls"].elements("`calls`"))


def _only(node: Located, what: str, known: Mapping[str, str]) -> tuple[str, Located]:
    """Return the one field of a mapping that says what it is by its name."""
    fields = node.fields(what, known)
    if len(fields) != 1:
        node.fail(f"{what} says what it is by one word: {', '.join(known)}. Begin the next with `- `.")
    return next(iter(fields.items()))


def _call(word: str, node: Located) -> ScriptedCall:
    if word in _TOOLS:
        code = node.text(f"`{word}`").removesuffix("\n")
        return ScriptedCall(_TOOLS[word], json.dumps({"code": code}, ensure_ascii=False))
    given = "input" if word == "custom_call" else "arguments"
    said = node.fields(f"`{word}`", {"name": _TURN[word], given: _TURN[word], "id": "id: call_1"})
    if missing := [name for name in ("name", given) if name not in said]:
        node.fail(f"`{word}` needs its {missing[0]}: `{_TURN[word]}`.")
    is_text = isinstance(said[given].content, str)
    return ScriptedCall(
        said["name"].text("`name`"),
        said[given].text(f"`{given}`") if is_text else json.dumps(said[given].json(), ensure_ascii=False),
        is_custom=word == "custom_call",
        call_id=said["id"].text("`id`") if "id" in said else None,
    )


def _item(node: Located) -> Item:
    """Return an item of `output`; ids are given later, where there are none."""
    known = {**_ITEMS, "phase": _TURN["phase"]}
    fields = node.fields("An item of `output`", known)
    phase = fields.get("phase")
    words = {name: part for name, part in fields.items() if name != "phase"}
    if len(words) != 1 or (phase is not None and "say" not in words):
        node.fail(f"An item of `output` says what it is by one word: {', '.join(_ITEMS)}; `say` may have a `phase`.")
    word, value = next(iter(words.items()))
    match word:
        case "reasoning":
            summary: JsonValue = [{"type": "summary_text", "text": value.text("`reasoning`")}]
            return {"type": "reasoning", "summary": summary}
        case "say":
            named = _phase(phase, is_last=True) if phase is not None else None
            return _message(
                {"type": "output_text", "text": value.text("`say`"), "annotations": [], "logprobs": []}, named
            )
        case "refuse":
            return _message({"type": "refusal", "refusal": value.text("`refuse`")}, None)
        case "item":
            item = value.json()
            if not isinstance(item, dict) or not isinstance(item.get("type"), str):
                value.fail("`item` is one of the API's, as it stands: a mapping with its `type`.")
            return item
        case _:
            return item_of(_call(word, value))


def item_of(call: ScriptedCall) -> Item:
    """Return a call as the API has it, without ids that it was not given."""
    kind, given = ("custom_tool_call", "input") if call.is_custom else ("function_call", "arguments")
    item: dict[str, JsonValue] = {"type": kind, "name": call.name, given: call.arguments}
    return item if call.call_id is None else {**item, "call_id": call.call_id}


def _message(part: dict[str, JsonValue], phase: Phase | None) -> Item:
    message: dict[str, JsonValue] = {"type": "message", "role": "assistant", "content": [part]}
    return {**message, "phase": phase} if phase else message


def _texts(said: Mapping[str, Located], name: str) -> tuple[str, ...]:
    if name not in said:
        return ()
    node = said[name]
    parts = node.content if isinstance(node.content, tuple) else (node,)
    return tuple(part.text(f"`{name}`") for part in parts)


def _phase(node: Located | None, *, is_last: bool) -> Phase | None:
    if node is None:
        return "final_answer" if is_last else "commentary"
    word = node.text("`phase`")
    if word not in _PHASES:
        node.fail(f"There is no phase {word!r}. Write commentary, final_answer or none.")
    return _PHASES[word]


def _usage(node: Located | None) -> ScriptedUsage:
    if node is None:
        return ScriptedUsage()
    return ScriptedUsage(**{name: part.count(f"`{name}`") for name, part in node.fields("`usage`", _USAGE).items()})


def _faults(node: Located | None, number: int | None) -> tuple[PlannedFault, ...]:
    if node is None:
        return ()
    return tuple(_fault(part, number) for part in (node.content if isinstance(node.content, tuple) else (node,)))


def _fault(node: Located, number: int | None) -> PlannedFault:
    try:
        if isinstance(node.content, str):
            return PlannedFault.here(node.content, number)
        words = {"name": "name: stalled", "times": "times: 2", "seconds": "seconds: 1"}
        said = node.fields("A fault", words)
        if "name" not in said:
            node.fail("A fault needs its name: {name: stalled, seconds: 1}.")
        plan = PlannedFault.here(said["name"].text("`name`"), number)
    except UsageError as error:
        if str(error).startswith(node.where):
            raise
        node.fail(str(error).replace(" Nothing was started.", ""))
    return PlannedFault(
        plan.name,
        number,
        said["times"].count("`times`") if "times" in said else plan.times,
        said["seconds"].number("`seconds`") if "seconds" in said else None,
    )
