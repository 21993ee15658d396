"""Texts that were sent as one message are shown exactly as if each had come by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cellwright_kernel.outputs import Outputs
from cellwright_kernel.stretches import STREAMS, TEXTS, Stretches, content_of, divided, separator

Said = list[tuple[str, str]]
TEXTS_SAID = ("x\n", "a\rb", "ééé", "line\nline 2\n", "\x1b[31mred", "z" * 10, "z" * 3000, "z" * 13_000, "")


def singly(kind: str, text: str) -> dict[str, Any]:
    if kind in STREAMS:
        return {"header": {"msg_type": "stream"}, "content": {"name": kind, "text": text}}
    content = {"data": {"text/plain": text}, "metadata": {"cellwright": {"source": kind}}, "transient": {}}
    return {"header": {"msg_type": "display_data"}, "content": content}


def together(said: Said) -> dict[str, Any]:
    stretches = Stretches()
    for kind, text in said:
        stretches.add(kind, len(text))
    content = content_of("".join(text + separator(kind) for kind, text in said))
    return {
        "header": {"msg_type": "display_data"},
        "content": content,
        "metadata": {"cellwright": {"stretches": stretches.take()}},
    }


def shown(outputs: Outputs) -> list[Any]:
    return [event.output for event in outputs.close() if event.type == "output"]


@pytest.mark.parametrize("kinds", [("log",), STREAMS, TEXTS])
@pytest.mark.parametrize("cells", [(None,), (None, 7)])
def test_what_was_gathered_is_shown_as_if_it_had_come_singly(
    kinds: tuple[str, ...], cells: tuple[int | None, ...]
) -> None:
    choose = random.Random(3)  # noqa: S311 - a fixed draw of cases
    for _ in range(8):
        of_one_by_one, of_gathered = Outputs(), Outputs()
        for _ in range(choose.choice((1, 4, 12))):
            of_cell = choose.choice(cells)
            said = [
                (choose.choice(kinds), choose.choice(TEXTS_SAID)) for _ in range(choose.choice((1, 3, 25, 60, 300)))
            ]
            for kind, text in said:
                of_one_by_one.add(singly(kind, text), of_cell)
            of_gathered.add(together(said), of_cell)
        assert shown(of_gathered) == shown(of_one_by_one)


def test_of_what_no_kernel_of_ours_sends_nothing_is_made_up() -> None:
    assert divided("abc\n", [["log", 3]]) == [("log", "abc")]
    for stretches in (None, [["log", 9]], [["log", -1]], [["log", "3"]], [["error", 3]], [[]], ["log"], {"log": 3}):
        assert divided("abc", stretches) == []
    assert divided(None, [["log", 0]]) == []
