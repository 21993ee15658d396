"""A history goes on from a response exactly if it begins with what was sent and said before."""

from __future__ import annotations

from cellwright.model.base import Item, item_from
from cellwright.model.chain import Chain

TASK: Item = {"type": "message", "role": "user", "content": "Do it."}
CALL: Item = {"type": "function_call", "call_id": "c1", "name": "exec_py", "arguments": "{}"}
ANSWER: Item = {"type": "function_call_output", "call_id": "c1", "output": "1"}


def begun() -> Chain:
    chain = Chain()
    chain.arrived("resp_1", [TASK], [item_from(CALL)])
    return chain


def test_first_request_is_whole() -> None:
    assert Chain().start([TASK]) == (None, 0)


def test_only_what_is_new_is_sent() -> None:
    assert begun().start([TASK, CALL, ANSWER]) == ("resp_1", 2)


def test_equal_items_are_the_same_ones() -> None:
    assert begun().start([dict(TASK), dict(CALL), ANSWER]) == ("resp_1", 2)


def test_history_that_was_rewritten_is_sent_whole() -> None:
    chain = begun()
    assert chain.start([{**TASK, "content": "Do less."}, CALL, ANSWER]) == (None, 0)
    assert chain.start([TASK, ANSWER, ANSWER]) == (None, 0)
    assert chain.start([TASK]) == (None, 0)


def test_chain_goes_on_from_the_newest_response() -> None:
    chain = begun()
    chain.arrived("resp_2", [TASK, CALL, ANSWER], [item_from(TASK)])
    assert chain.start([TASK, CALL, ANSWER, TASK]) == ("resp_2", 4)
    assert chain.start([TASK, CALL, ANSWER]) == (None, 0)


def test_forgotten_chain_begins_anew() -> None:
    chain = begun()
    chain.forget()
    assert chain.start([TASK, CALL, ANSWER]) == (None, 0)
