"""What Node says becomes the same messages that the Python kernel sends, each under its own cell."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.waiting import GUARD_S

from cellwright_kernel import stretches
from cellwright_kernel.iopub import Gate
from cellwright_kernel.javascript.publisher import Posted, Publisher


class Heard:
    """Stands for the iopub socket and keeps what is sent."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.messages: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = []

    def message(self, msg_type: str, content: dict[str, Any], parent: dict[str, Any], metadata: dict[str, Any]) -> None:
        self.messages.append((msg_type, content, parent["msg_id"], metadata))

    @property
    def streams(self) -> list[tuple[str, str, str]]:
        return [(c["name"], c["text"], parent) for kind, c, parent, _ in self.messages if kind == "stream"]


def publisher_of(*serials: int) -> tuple[Publisher, Heard]:
    heard = Heard()
    publisher = Publisher(heard)  # type: ignore[arg-type]
    for serial in serials:
        publisher.open(Posted(serial, 10 * serial, {"msg_id": f"m{serial}"}))
    return publisher, heard


async def test_a_log_is_one_message_under_its_cell() -> None:
    publisher, heard = publisher_of(1, 2)
    publisher.take({"type": "log", "cell": 1, "text": "late"})
    content = {"data": {"text/plain": "late"}, "metadata": {"cellwright": {"source": "log"}}, "transient": {}}
    assert heard.messages == [("display_data", content, "m1", {"cellwright": {"source": "log"}})]


async def test_a_result_has_the_number_of_its_cell() -> None:
    publisher, heard = publisher_of(1)
    publisher.take({"type": "result", "cell": 1, "text": "2"})
    ((kind, content, parent, _),) = heard.messages
    assert (kind, content["execution_count"], content["data"], parent) == (
        "execute_result",
        10,
        {"text/plain": "2"},
        "m1",
    )


async def test_writes_to_one_stream_are_one_message_until_something_else_is_said() -> None:
    publisher, heard = publisher_of(1)
    for name, text in (("stdout", "a"), ("stdout", "b"), ("stderr", "c"), ("stdout", "d")):
        publisher.take({"type": "stream", "cell": 1, "name": name, "text": text})
    publisher.take({"type": "log", "cell": 1, "text": "e"})
    assert heard.streams == [("stdout", "ab", "m1"), ("stderr", "c", "m1"), ("stdout", "d", "m1")]
    assert [kind for kind, *_ in heard.messages] == ["stream", "stream", "stream", "display_data"]


async def test_streams_of_two_cells_are_apart() -> None:
    publisher, heard = publisher_of(1, 2)
    publisher.write(2, "stdout", "of two")
    publisher.write(1, "stdout", "late of one")
    publisher.flush()
    assert heard.streams == [("stdout", "of two", "m2"), ("stdout", "late of one", "m1")]


async def test_what_is_gathered_is_sent_soon_although_nothing_follows() -> None:
    publisher, heard = publisher_of(1)
    publisher.write(1, "stdout", "waiting")
    assert heard.messages == []
    async with asyncio.timeout(GUARD_S):
        while not heard.messages:  # noqa: ASYNC110 - a timer of the publisher's own
            await asyncio.sleep(0.005)
    assert heard.streams == [("stdout", "waiting", "m1")]


async def test_a_long_run_is_sent_in_parts() -> None:
    publisher, heard = publisher_of(1)
    for _ in range(5):
        publisher.write(1, "stdout", "x" * 20_000)
    publisher.close()
    assert [len(text) for _, text, _ in heard.streams] == [60_000, 40_000]


async def test_what_is_missing_is_noted_where_it_is_missing() -> None:
    publisher, heard = publisher_of(1)
    publisher.write(1, "stdout", "head")
    publisher.take({"type": "stream", "cell": 1, "name": "stdout", "text": "tail", "missing": 7})
    publisher.close()
    assert [(content["text"], note) for _, content, _, note in heard.messages] == [
        ("head", {}),
        ("tail", {"cellwright": {"missing_chars": 7}}),
    ]


async def test_what_names_no_cell_belongs_to_the_latest() -> None:
    publisher, heard = publisher_of(1, 2)
    publisher.take({"type": "shown", "cell": None, "data": {"text/plain": "x"}, "source": "display"})
    publisher.notice("a sentence")
    assert [parent for _, _, parent, _ in heard.messages] == ["m2", "m2"]


async def test_before_the_first_cell_nothing_is_sent() -> None:
    publisher, heard = publisher_of()
    publisher.notice("nobody hears it")
    assert (heard.messages, publisher.latest) == ([], 0)


async def test_what_a_cell_says_after_its_first_messages_is_gathered() -> None:
    publisher, heard = publisher_of(1, 2)
    for number in range(stretches.SINGLY + 3):
        publisher.take({"type": "log", "cell": 1, "text": f"{number}"})
    publisher.take({"type": "stream", "cell": 1, "name": "stderr", "text": "a"})
    publisher.take({"type": "stream", "cell": 1, "name": "stderr", "text": "b"})
    publisher.take({"type": "log", "cell": 2, "text": "of another"})
    assert len(heard.messages) == stretches.SINGLY + 2
    _, content, parent, note = heard.messages[-2]
    assert (content["data"], parent) == ({"text/plain": "200\n201\n202\nab"}, "m1")
    assert note == {"cellwright": {"stretches": [["log", 3, 3, 3], ["stderr", 2]]}}
