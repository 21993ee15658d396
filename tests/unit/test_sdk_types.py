"""Which bodies of requests the openai SDK's own types allow, and how what they don't is told."""

from __future__ import annotations

import copy

import pytest

from cellwright.emulator.sdk_types import Mismatch, mismatch

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "exec_py", "arguments": "{}", "status": "completed"}  # fmt: skip
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "original"}
BODY = {
    "model": "m",
    "stream": True,
    "store": False,
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True},
        {"type": "custom", "name": "c"},
    ],
    "reasoning": {"effort": "high"},
    "text": {"format": {"type": "json_schema", "name": "x", "schema": {"anything": [1]}}},
    "context_management": [{"type": "compaction", "compact_threshold": 1000}],
    "metadata": {"a": "b"},
    "input": [
        {"type": "message", "role": "user", "content": "Do it."},
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "x", "annotations": [], "logprobs": []}],
        },
        CALL,
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}, IMAGE]},
        {"type": "custom_tool_call", "call_id": "d", "name": "c", "input": "1"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "1"},
        {"type": "compaction", "encrypted_content": "x"},
    ],
}


def test_what_the_types_allow_is_allowed():
    assert mismatch(BODY) is None
    assert mismatch({**BODY, "stream": False}) is None
    assert mismatch({"model": "m", "input": "Do it."}) is None


WRONG = {
    "modle": ("m", "modle", "there is no such field"),
    "store": ("no", "store", "input should be a valid boolean, and it is 'no'"),
    "metadata": ({"a": 1}, "metadata.a", "input should be a valid string, and it is 1"),
    "reasoning": ({"efort": "high"}, "reasoning.efort", "there is no such field"),
    "text": ({"format": {"type": "json_schema"}}, "text.format.name", "it is missing"),
    "tools": ([{"type": "compter"}], "tools[0].type", "there is no type 'compter' here"),
    "input": ([BODY["input"][0], 1], "input[1]", "input should be a valid dictionary, and it is 1"),
    "context_management": (
        [{"type": "compaction", "compact_threshold": "x"}],
        "context_management[0].compact_threshold",
        "input should be a valid integer, and it is 'x'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_field_of_a_body_is_told(name: str):
    value, field, why = WRONG[name]
    found = mismatch({**BODY, name: value})
    assert found is not None
    assert (found.field, found.why) == (field, why)


ITEMS = {
    "an item of no type": (0, {"type": "thought"}, "input[0].type", "there is no type 'thought' here"),
    "a message with more": (2, {"mood": "good"}, "input[2].mood", "there is no such field"),
    "a phase that is none": (
        2,
        {"phase": "x"},
        "input[2].phase",
        "input should be 'commentary' or 'final_answer', and it is 'x'",
    ),
    "a call with more": (3, {"parsed": 1}, "input[3].parsed", "there is no such field"),
    "an answer of another type": (
        4,
        {"output": [{"type": "text", "text": "x"}]},
        "input[4].output[0].type",
        "there is no type 'text' here",
    ),
    "an image without its data's kind": (
        4,
        {"output": [{**IMAGE, "detail": "huge"}]},
        "input[4].output[0].detail",
        "input should be 'low', 'high', 'auto' or 'original', and it is 'huge'",
    ),
}


@pytest.mark.parametrize("title", ITEMS)
def test_field_of_an_item_is_told(title: str):
    index, change, field, why = ITEMS[title]
    body = copy.deepcopy(BODY)
    body["input"][index].update(change)
    found = mismatch(body)
    assert found is not None
    assert (found.field, found.why) == (field, why)


def test_missing_and_unknown_fields_are_told_apart():
    assert mismatch({**BODY, "text": {"format": {"type": "json_schema", "name": "x"}}}) == Mismatch(
        "text.format.schema", "it is missing", is_missing=True
    )
    assert mismatch({**BODY, "modle": 1}) == Mismatch("modle", "there is no such field", is_unknown=True)
