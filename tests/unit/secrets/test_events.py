"""Events that come out of the door have no value, however a hostile kernel host divides it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import SandboxLost
from cellwright.secrets import Secrets
from cellwright.secrets.events import without_values
from cellwright.secrets.plain import Plain
from cellwright_kernel.wire import ClosedEvent, Event, HeartbeatEvent, Image, KeptEvent, OutputEvent, PieceEvent, Text

VALUE = "hunter2-and-more"
HIDER = Secrets({"NAME": VALUE}).hider
CLOSED = ClosedEvent(status="ok")


async def stream(events: Sequence[Event]) -> AsyncIterator[Event]:
    for event in events:
        yield event


async def hidden(*events: Event) -> list[Event]:
    return [event async for event in without_values(stream(events), HIDER)]


def piece(text: str) -> PieceEvent:
    return PieceEvent(text=text, source="stdout")


def text(said: str) -> OutputEvent:
    return OutputEvent(number=0, output=Text(text=said, source="stdout"))


async def test_a_live_view_sees_no_value_and_a_heartbeat_lets_nothing_go() -> None:
    events = await hidden(
        piece("it is hunt"),
        HeartbeatEvent(),
        piece("er2-and-"),
        HeartbeatEvent(),
        piece("more!"),
        text(f"it is {VALUE}!"),
        CLOSED,
    )
    assert events == [
        piece("it is "),
        HeartbeatEvent(),
        HeartbeatEvent(),
        piece("[secret NAME]!"),
        text("it is [secret NAME]!"),
        CLOSED,
    ]


async def test_what_was_held_back_is_let_go_of_before_its_output_at_the_end_and_when_the_stream_breaks() -> None:
    assert await hidden(piece("hunt"), text("hunt"), piece("er"), piece("hu"), CLOSED) == [
        piece("hunt"),
        text("hunt"),
        piece("er"),
        piece("hu"),
        CLOSED,
    ]

    async def breaking() -> AsyncIterator[Event]:
        yield piece("hunter2-")
        raise SandboxLost

    broken = without_values(breaking(), HIDER)
    assert await anext(broken) == piece("hunter2-")
    with pytest.raises(SandboxLost):
        await anext(broken)


async def test_kept_text_is_looked_at_across_its_pieces_by_output() -> None:
    kept = [
        KeptEvent(number=number, text=said)
        for number, said in ((1, "a hunter2"), (2, "hun"), (1, "-and-more b"), (2, "ter3"))
    ]
    events = await hidden(*kept, text("cut"), CLOSED)
    wholes = {
        number: "".join(e.text for e in events if isinstance(e, KeptEvent) and e.number == number) for number in (1, 2)
    }
    assert wholes == {1: "a [secret NAME] b", 2: "hunter3"}
    assert [event.type for event in events][-2:] == ["output", "closed"]


async def test_a_picture_whose_file_holds_a_value_is_left_out() -> None:
    whole = Image(media_type="image/png", width=2, height=1, data=b"\x89PNG" + VALUE.encode(), of_cell=3)
    (event, _) = await hidden(OutputEvent(number=1, output=whole), CLOSED)
    assert isinstance(event, OutputEvent)
    assert event.output == Text(
        text="[A picture was left out: its file holds the value of the secret NAME.]", source="notice", of_cell=3
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["piece", "kept", "beat"]), st.integers(1, 9)), max_size=20))
def test_a_kernel_host_that_divides_as_it_likes_gets_no_value_through(kinds: list[tuple[str, int]]) -> None:
    rest, events = f"x{VALUE}y" * 4, list[Event]()
    for kind, length in kinds:
        part, rest = (rest[:length], rest[length:]) if kind == "piece" else ("", rest)
        events.append(
            HeartbeatEvent()
            if kind == "beat"
            else piece(part)
            if kind == "piece"
            else KeptEvent(number=7, text=VALUE[:length])
        )
    came = asyncio.run(hidden(*events, piece(rest), CLOSED))
    told = "".join(event.text for event in came if isinstance(event, PieceEvent))
    assert told == "x[secret NAME]y" * 4


async def test_events_without_values_pass_as_they_are() -> None:
    events = [piece("hunt"), HeartbeatEvent(), text(VALUE), CLOSED]
    assert [event async for event in without_values(stream(events), Secrets({"X": "another"}).hider)] == events


async def test_what_has_been_shown_so_far_ends_before_what_may_be_a_value() -> None:
    shown = [text("it is hunt"), OutputEvent(number=1, output=Text(text="logged hunt", source="log")), CLOSED]
    events = [event async for event in without_values(stream(shown), HIDER, is_unfinished=True)]
    assert [
        event.output.text for event in events if isinstance(event, OutputEvent) and isinstance(event.output, Text)
    ] == [
        "it is ",
        "logged hunt",
    ]


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["a\x1b[1mb\x1b[0mc"], "abc"),
        (["a\x1b", "[3", "1;4", "mb"], "ab"),
        (["\x1b]0;title", "\x07x\x1b]8;;http://a\x1b", "\\link"], "xlink"),
        (["hunXX\b\bter2"], "hunXXter2"),
        (["over\rwritten\r\nline\r", "\nend\r"], "over\nwritten\nline\nend"),
        (["tab\tand\nline\x00"], "tab\tand\nline"),
    ],
)
def test_a_live_view_has_no_colours_and_nothing_written_over(pieces: list[str], shown: str) -> None:
    plain = Plain()
    assert "".join(map(plain.take, pieces)) == shown


async def test_a_colour_within_a_value_hides_it_from_nobody() -> None:
    events = await hidden(piece("it is hun\x1b[1"), piece("mter2-and-\x1b[0mmore!"), CLOSED)
    assert events == [piece("it is "), piece("[secret NAME]!"), CLOSED]
