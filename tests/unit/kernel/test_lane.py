"""What comes when no cell runs, of several languages, as one stream of events."""

from cellwright_kernel.lane import Lane, late_events
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.wire import ClosedEvent, KeptEvent, OutputEvent, Text


def published(text: str, parent: str) -> dict[str, object]:
    return {
        "header": {"msg_type": "stream"},
        "parent_header": {"msg_id": parent},
        "metadata": {},
        "content": {"name": "stdout", "text": text},
    }


def lane(language: str, *cells: int) -> Lane:
    made = Lane(language, Outputs)
    made.cells = {f"message {number}": number for number in cells}
    made.last_cell = max(cells, default=0)
    return made


def late(text: str, number: int, cell: int) -> OutputEvent:
    return OutputEvent(number=number, output=Text(text=text, source="stdout", of_cell=cell))


def test_late_events_are_numbered_through_and_closed():
    python, javascript, unused = lane("python", 1, 3), lane("javascript", 2), lane("python")
    python.take_message(published("three", "message 3"))
    python.take_message(published("one", "message 1"))
    javascript.take_message(published("two", "message 2"))
    python.note("Something was noticed.")
    found = list(late_events([python, javascript, unused], ["The browser ended."]))
    assert found == [
        OutputEvent(number=0, output=Text(text="The browser ended.", source="notice")),
        late("three", 1, 3),
        late("one", 2, 1),
        OutputEvent(number=3, output=Text(text="Something was noticed.", source="notice")),
        late("two", 4, 2),
        ClosedEvent(status="ok"),
    ]
    assert list(late_events([python, javascript, unused], [])) == [ClosedEvent(status="ok")]


def test_a_late_text_that_is_cut_is_kept_whole_and_said_to_be_truncated():
    python = lane("python", 1)
    python.take_message(published("x" * 20_000, "message 1"))
    kept, shown, closed = late_events([python], [])
    assert (kept, closed) == (KeptEvent(number=0, text="x" * 20_000), ClosedEvent(status="ok", truncated=True))
    assert len(shown.output.text) <= 12_000
    assert "a process that its cell left running waits" in shown.output.text


def test_late_output_without_end_is_counted():
    python = lane("python", 1, 2)
    for _ in range(100):
        python.take_message(published("one", "message 1"))
        python.take_message(published("two", "message 2"))
    *outputs, left_out, closed = late_events([python], [])
    assert (len(outputs), closed.truncated) == (20, True)
    assert left_out.output.text == (
        "[180 outputs with 720 characters that came late from earlier cells are left out here.]"
    )
