"""What a running cell has shown by now. Messages are written here as kernels send them."""

from typing import Any

from cellwright_kernel.ceilings import CELL_ITEMS, ITEM_CHARS
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.wire import Output, Text, gather, in_order


def wrote(text: str) -> dict[str, Any]:
    return {"header": {"msg_type": "stream"}, "content": {"name": "stdout", "text": text}}


def logged(text: str) -> dict[str, Any]:
    content = {"data": {"text/plain": text}, "metadata": {"cellwright": {"source": "log"}}}
    return {"header": {"msg_type": "display_data"}, "content": content}


def texts(outputs: dict[int, Output]) -> list[str]:
    return [output.text for output in in_order(outputs) if isinstance(output, Text)]


def test_what_is_shown_so_far_takes_nothing_and_has_the_line_that_is_being_written():
    outputs = Outputs()
    for one in (wrote("one\n"), logged("two"), wrote("10 %\r20 %")):
        outputs.add(one)
    for _ in range(2):
        gathered: dict[int, Output] = {}
        for event in outputs.so_far():
            gather(gathered, event)
        assert texts(gathered) == ["one\n", "two", "20 %"]
    outputs.add(wrote("\r30 %\n"))
    whole: dict[int, Output] = {}
    for event in outputs.close():
        gather(whole, event)
    assert texts(whole) == ["one\n", "two", "30 %\n"]


def test_what_is_shown_so_far_stays_within_the_ceilings():
    outputs = Outputs()
    for number in range(300):
        outputs.add(logged(f"{number}"))
    outputs.add(wrote("x" * 30_000))
    *shown, last = [event.output for event in outputs.so_far()]
    assert len(shown) <= CELL_ITEMS + 1
    assert isinstance(last, Text)
    assert (len(last.text) <= ITEM_CHARS, last.missing_chars > 15_000) == (True, True)
