"""One history, as servers of different abilities take it. Each body is held against the SDK's own types."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from cellwright.emulator.sdk_types import NotTheSdks, check
from cellwright.model.base import Item, item_from
from cellwright.model.pictures import mark_of
from cellwright.model.profile import Profile
from cellwright.model.tools import tools_for
from cellwright.model.wire import Sent, Wire

ABLE = Profile(name="able")


def png(width: int = 2, height: int = 1, mark: int = 0) -> str:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4) + bytes([mark] * 8)
    return "data:image/png;base64," + base64.b64encode(head).decode()


def shown(url: str) -> Sent:
    return {"type": "input_image", "image_url": url, "detail": "original"}


def told(text: str) -> Sent:
    return {"type": "input_text", "text": text}


TASK: Item = {"type": "message", "role": "user", "content": [told("Do it.")]}
THOUGHT: Item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk", "status": None}
SAID: Item = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": None}],
}
CALL: Item = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "exec_py",
    "arguments": '{"code": "1"}',
    "status": "completed",
}
FREE: Item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "exec_py", "input": "log(1)\n"}


def answered(*parts: Sent, call_id: str = "c1") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": [*parts]}


def sent(history: list[Item], profile: Profile = ABLE, **more) -> list[Sent]:
    items = Wire(profile).input(history, **more)
    check({"model": "m", "input": [*items]})
    return items


def kinds(items: list[Sent]) -> list[str]:
    return [str(item["type"]) for item in items]


def test_what_an_able_server_gives_goes_back_to_it_as_it_came_but_for_what_is_null() -> None:
    history = [TASK, THOUGHT, SAID, CALL, answered(told("1"), shown(png()))]
    items = sent(history)
    assert items[0] == TASK
    assert items[1] == {name: value for name, value in THOUGHT.items() if value is not None}
    assert items[2] == {**SAID, "content": [{"type": "output_text", "text": "I look.", "annotations": []}]}
    assert items[3:] == history[3:]


def test_fields_that_are_no_input_are_left_out() -> None:
    (item,) = sent([{**CALL, "created_by": "somebody", "parsed_arguments": {}}])
    assert item == CALL


def test_item_of_a_kind_that_the_sdk_does_not_know_goes_as_it_came() -> None:
    novelty: Item = {"type": "novelty", "id": "n_1", "flavour": {"sweet": True}}
    assert Wire(ABLE).input([novelty]) == [novelty]


def test_phase_is_sent_on_every_message_of_the_model() -> None:
    final: Item = {**SAID, "id": "msg_2", "phase": "final_answer"}
    short: Item = {"type": "message", "role": "assistant", "content": "Hm.", "phase": "commentary"}
    assert [item.get("phase") for item in sent([TASK, SAID, final, short])] == [
        None,
        "commentary",
        "final_answer",
        "commentary",
    ]


def test_phase_is_left_out_where_it_is_not_known() -> None:
    assert ["phase" in item for item in sent([SAID], replace(ABLE, phase=False))] == [False]


def test_message_without_an_id_goes_in_the_short_form() -> None:
    content = [{"type": "output_text", "text": "Hi "}, {"type": "refusal", "refusal": "no"}]
    (item,) = sent([{"type": "message", "role": "assistant", "content": content}])
    assert item == {"type": "message", "role": "assistant", "content": "Hi no"}


def test_refusal_goes_back() -> None:
    (item,) = sent([{**SAID, "content": [{"type": "refusal", "refusal": "I won't."}]}])
    assert item["content"] == [{"type": "refusal", "refusal": "I won't."}]


def test_call_of_a_custom_tool_is_a_call_and_its_answer_is_one_of_a_custom_tool() -> None:
    call = item_from(FREE)
    assert (call.type, getattr(call, "arguments", "")) == ("call", '{"code": "log(1)\\n"}')
    items = sent([TASK, FREE, answered(told("1"), shown(png()))])
    assert items[1] == FREE
    assert items[2] == {"type": "custom_tool_call_output", "call_id": "c1", "output": [told("1"), shown(png())]}


def test_answer_to_a_custom_call_that_the_server_has_already_is_one_of_a_custom_tool() -> None:
    assert kinds(sent([TASK, FREE, answered(told("1"))], start=2)) == ["custom_tool_call_output"]


def test_custom_call_is_a_functions_where_those_are_not_known() -> None:
    items = sent([FREE, answered(told("1"))], replace(ABLE, custom_tools=False))
    call = {"type": "function_call", "call_id": "c1", "name": "exec_py", "arguments": '{"code": "log(1)\\n"}'}
    assert items == [call, answered(told("1"))]


def test_custom_call_without_a_name_is_a_functions_without_one() -> None:
    (call,) = sent([{"type": "custom_tool_call", "call_id": "c1", "input": "1"}], replace(ABLE, custom_tools=False))
    assert call == {"type": "function_call", "call_id": "c1", "name": "", "arguments": '{"code": "1"}'}


def test_function_tools_become_custom_ones_when_asked_for() -> None:
    offered = tools_for(["python", "javascript"], width=1440, height=1000, page_height=900)
    tools = Wire(ABLE, custom_tools=True).tools(offered)
    assert [(tool["type"], tool["name"], tool["format"]) for tool in tools] == [
        ("custom", "exec_py", {"type": "text"}),
        ("custom", "exec_js", {"type": "text"}),
    ]
    assert "plain text" in str(tools[0]["description"])
    check({"model": "m", "input": "x", "tools": [*tools]})


def test_function_that_takes_something_else_than_code_stays_one() -> None:
    properties = {"question": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["question"], "additionalProperties": False}
    asks: Item = {"type": "function", "name": "ask", "description": "Asks.", "strict": True, "parameters": schema}
    assert Wire(ABLE, custom_tools=True).tools([asks]) == [asks]


def test_tool_is_not_strict_where_that_is_not_known() -> None:
    offered = tools_for(["python"], width=1440, height=1000, page_height=900)
    assert [tool["strict"] for tool in Wire(replace(ABLE, strict_tools=False)).tools(offered)] == [False]


def test_picture_without_detail_gets_one() -> None:
    bare = {"type": "input_image", "image_url": png()}
    assert sent([CALL, answered(bare)])[1]["output"] == [{**bare, "detail": "auto"}]


def test_pictures_follow_all_answers_of_a_turn_where_answers_hold_none() -> None:
    second: Item = {**CALL, "id": "fc_2", "call_id": "c2"}
    history = [CALL, second, answered(told("a"), shown(png(mark=1))), answered(shown(png(mark=2)), call_id="c2"), SAID]
    items = sent(history, replace(ABLE, tool_images="follow_up"))
    assert kinds(items) == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
        "message",
    ]
    assert items[2]["output"] == [told("a"), told("[Picture 1 follows in the next message.]")]
    assert items[4] == {
        "type": "message",
        "role": "user",
        "content": [told("Picture 1:"), shown(png(mark=1)), told("Picture 2:"), shown(png(mark=2))],
    }


def test_numbers_of_pictures_that_follow_go_on_where_the_server_has_the_beginning() -> None:
    history = [
        CALL,
        answered(shown(png(mark=1))),
        {**CALL, "call_id": "c2"},
        answered(shown(png(mark=2)), call_id="c2"),
    ]
    items = sent(history, replace(ABLE, tool_images="follow_up"), start=3)
    assert items[0]["output"] == [told("[Picture 2 follows in the next message.]")]


def test_picture_is_a_sentence_where_none_is_taken_from_a_call_and_a_users_stays() -> None:
    asked: Item = {"type": "message", "role": "user", "content": [shown(png())]}
    items = sent([asked, CALL, answered(shown(png()))], replace(ABLE, tool_images="none"))
    assert items[0] == asked
    assert items[2]["output"] == [told("[A picture was left out: this model server takes none from a call.]")]


def test_picture_that_is_too_large_is_left_out_with_its_size() -> None:
    items = sent([CALL, answered(shown(png(8000, 6000)), shown(png(2000, 9)))], replace(ABLE, max_image_side=2000))
    output = items[1]["output"]
    assert isinstance(output, list)
    assert "8000x6000" in str(output[0])
    assert "2000 a side" in str(output[0])
    assert output[1] == shown(png(2000, 9))


def test_of_too_many_pictures_the_oldest_go_half_at_a_time() -> None:
    """One at a time would cost the server's cache at every turn."""

    def left(count: int) -> int:
        history = [CALL, answered(*(shown(png(mark=number)) for number in range(count)))]
        output = sent(history, replace(ABLE, max_images=4))[1]["output"]
        assert isinstance(output, list)
        pictures = [part["type"] == "input_image" for part in output if isinstance(part, dict)]
        assert pictures == sorted(pictures)  # the newest are there
        return sum(pictures)

    assert [left(count) for count in range(1, 9)] == [1, 2, 3, 4, 3, 4, 3, 4]


def test_picture_that_was_refused_is_left_out_ever_after() -> None:
    url = png(mark=7)
    items = sent([CALL, answered(shown(url), shown(png()))], refused={mark_of(url)})
    assert items[1]["output"] == [told("[A picture was left out: the model server refused it.]"), shown(png())]


def test_reasoning_goes_without_its_seal_where_that_is_not_known_and_an_empty_one_not_at_all() -> None:
    profile = replace(ABLE, encrypted_reasoning=False)
    plain: Item = {**THOUGHT, "content": [{"type": "reasoning_text", "text": "Hm."}]}
    assert sent([THOUGHT, CALL, answered(told("1"))], profile)[0] == CALL
    assert "encrypted_content" not in sent([plain], profile)[0]


def test_reasoning_of_another_model_is_left_out_with_the_ids_of_what_followed_it() -> None:
    """A strict server refuses an item by whose id it knows that reasoning belongs to it."""
    own: Item = {**THOUGHT, "id": "rs_2"}
    later: Item = {**CALL, "id": "fc_2", "call_id": "c2"}
    history = [TASK, THOUGHT, SAID, CALL, answered(told("1")), own, later, answered(told("2"), call_id="c2")]
    items = sent(history, is_foreign=lambda item_id: item_id == "rs_1")
    assert kinds(items) == ["message", "message", "function_call", "function_call_output", "reasoning", "function_call", "function_call_output"]  # fmt: skip
    assert ["id" in item for item in items] == [False, False, False, False, True, True, False]
    assert items[1]["phase"] == "commentary"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"modle": "m"}, "modle"),
        ({"input": [{**CALL, "status": None}]}, "status"),
        ({"input": [{"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "detail"),
        ({"input": [{**FREE, "status": "completed"}]}, "status"),
        ({"input": [{"type": "novelty"}]}, "input"),
        ({"tools": [{"type": "function", "name": "f", "strict": True}]}, "parameters"),
        ({"stream": 1}, "stream"),
    ],
)  # fmt: skip
def test_body_that_the_sdks_types_do_not_allow_is_told_by_its_place(body: dict, place: str) -> None:
    with pytest.raises(NotTheSdks, match=place):
        check({"model": "m", "input": "x", **body})
