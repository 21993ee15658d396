"""What is sent to a model: each picture once, old ones no longer, a summary instead of what it sums up; never less than the task."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.pictures import png

from cellwright.errors import UsageError
from cellwright.history import Answer, History, Pictures, user_item
from cellwright.model.base import Item

TASK = user_item("Do it.")


def url(number: int) -> str:
    return "data:image/png;base64," + base64.b64encode(png(number)).decode()


def picture(number: int) -> dict[str, str]:
    return {"type": "input_image", "image_url": url(number), "detail": "original"}


def words(text: str) -> dict[str, str]:
    return {"type": "input_text", "text": text}


def asked(number: int) -> list[Item]:
    return [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "exec_py", "arguments": "{}"},
    ]


def answered(number: int, *parts: Any) -> Answer:
    return Answer({"type": "function_call_output", "call_id": f"c{number}", "output": list(parts)}, number)


def turns(*shown: int | None, history: History | None = None, first: int = 1) -> History:
    """Return a history of turns, each of which shows this picture, or says something."""
    history = history or History(TASK)
    for number, one in enumerate(shown, first):
        history.respond(asked(number))
        history.answer(answered(number, words("Text.") if one is None else picture(one)))
    return history


def shown(history: History) -> list[str]:
    """Return of each part of each answer whether it is a picture, else what it says."""
    parts = [part for item in history if isinstance(out := item.get("output"), list) for part in out]
    return ["picture" if part["type"] == "input_image" else part["text"] for part in parts]  # type: ignore[index, misc, call-overload]


GONE = "[A picture was here. It is no longer sent"


def test_a_picture_that_the_model_has_before_its_eyes_is_not_sent_again() -> None:
    assert shown(turns(7, 7, 8, 7)) == [
        "picture",
        "The picture is the same as the one of cell 1 above; it is not sent again.",
        "picture",
        "picture",
    ]


def test_it_is_the_newest_that_counts_also_over_turns_without_pictures_and_within_one_answer() -> None:
    history = turns(7, None, None)
    history.respond(asked(4))
    history.answer(answered(4, words("First."), picture(7), picture(8), words("Then."), picture(8)))
    assert shown(history)[3:] == [
        "First.",
        "The picture is the same as the one of cell 1 above; it is not sent again.",
        "picture",
        "Then.",
        "The picture is the same as the one before it; it is not sent again.",
    ]


def test_a_picture_that_is_no_longer_sent_is_sent_again() -> None:
    history = turns(7, None)
    assert history.drop_pictures(0) == 1
    assert shown(turns(7, history=history, first=3))[-1] == "picture"


def test_what_was_given_is_not_changed() -> None:
    given = answered(2, picture(7))
    history = turns(7)
    history.respond(asked(2))
    history.answer(given)
    history.drop_pictures(0)
    assert given.item["output"] == [picture(7)]


def test_old_pictures_go_in_one_step_and_text_stays() -> None:
    history = turns(1, 2, None, 3)
    before = history.items
    assert (history.pictures, history.drop_pictures(1), history.pictures) == (3, 2, 1)
    told = shown(history)
    assert [text.startswith(GONE) for text in told] == [True, True, False, False]
    assert told[2:] == ["Text.", "picture"]
    assert len(history) == len(before)
    assert [a for a, b in zip(history, before, strict=True) if a.get("type") != "function_call_output" and a != b] == []
    assert history.drop_pictures(1) == 0


def test_pictures_that_the_model_has_not_seen_yet_never_go() -> None:
    history = turns(1, 2)
    history.respond(asked(3))
    history.answer(answered(3, picture(3), picture(4), picture(5)))
    assert history.drop_pictures(1) == 2
    assert [text for text in shown(history) if text == "picture"] == ["picture"] * 3


def test_after_a_compaction_only_what_was_said_to_the_model_stays_of_what_was_before() -> None:
    history = turns(1, 2)
    history.say(user_item("And be quick."))
    compaction: Item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    history.respond([compaction, *asked(3)])
    history.answer(answered(3, picture(2)))
    kinds = [item.get("type") for item in history]
    assert kinds == ["message", "message", "compaction", "reasoning", "function_call", "function_call_output"]
    assert shown(history) == ["picture"], "it is gone from what the server has, so it is sent whole"


def test_a_summary_stands_for_all_before_the_last_turn_but_what_was_said_to_the_model() -> None:
    history = turns(1, 2)
    history.say(user_item("And be quick."))
    turns(3, history=history, first=3)
    last = history.items[-3:]
    assert history.before_last_turn == history.items[:-3]
    history.sum_up("Two are done.")
    assert history.items[:2] == (TASK, user_item("And be quick."))
    assert "Two are done." in str(history.items[2])
    assert history.items[3:] == last
    assert shown(history) == ["picture"]


def test_a_second_summary_stands_for_the_first() -> None:
    history = turns(1, 2)
    history.sum_up("One is done.")
    turns(3, history=history, first=3)
    assert "One is done." in str(history.summable)
    history.sum_up("Two are done.")
    assert "One is done." not in str(history.items)
    assert str(history.items).count("This is your own summary") == 1
    assert history.summable == (), "a summary alone is not summed up again"


def test_there_is_nothing_to_sum_up_before_the_second_turn() -> None:
    assert History(TASK).summable == ()
    assert turns(1).summable == ()
    assert len(turns(1, 2).summable) == 3


def test_shortening_leaves_every_call_and_every_word_of_the_model_as_they_came() -> None:
    history = turns(1, 2, 3, 4)
    sent = [item for item in history if item.get("type") != "function_call_output"]
    history.drop_pictures(1)
    assert [item for item in history if item.get("type") != "function_call_output"] == sent
    history.sum_up("Three are done.")
    called = [item for item in history if item.get("type") == "function_call"]
    assert called == [sent[-1]]
    assert json.loads(str(called[0]["arguments"])) == {}
    assert [item.get("call_id") for item in history if item.get("type") == "function_call_output"] == ["c4"]


def test_a_copy_goes_its_own_way() -> None:
    history = turns(1)
    other = history.copy()
    turns(2, history=other, first=2)
    other.drop_pictures(0)
    assert shown(history) == ["picture"]
    assert repr(history) == "<History: 4 items, 1 picture>"


@pytest.mark.parametrize(("most", "kept"), [(3, 0), (2, 3), (0, 0)])
def test_steps_that_leave_nothing_or_go_nowhere_are_refused(most: int, kept: int) -> None:
    with pytest.raises(UsageError, match=f"Pictures {most}:{kept} cannot be"):
        Pictures(most, kept)
