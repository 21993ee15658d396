"""What frames of a WebSocket say is read in whatever pieces they come, and nothing of them is held."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode

from cellwright.egress.websocket import Frames, NoFrame, ending

FRAMES = st.lists(
    st.tuples(
        st.sampled_from([Opcode.CONT, Opcode.TEXT, Opcode.BINARY, Opcode.PING]),
        st.one_of(st.binary(max_size=125), st.integers(126, 70_000).map(lambda size: b"x" * size)),
    ),
    max_size=5,
)


@settings(max_examples=100, deadline=None)
@given(FRAMES, st.lists(st.integers(0, 80_000), max_size=20), st.booleans())
def test_what_is_said_is_what_was_sent(frames: list[tuple[Opcode, bytes]], cuts: list[int], masked: bool) -> None:
    frames = [(code, said[:125] if code is Opcode.PING else said) for code, said in frames]
    sent = b"".join(Frame(code, said).serialize(mask=masked) for code, said in frames)
    ends = sorted({min(cut, len(sent)) for cut in cuts} | {len(sent)})
    reader = Frames()
    heard = [part for start, end in zip([0, *ends], ends, strict=False) for part in reader.said(sent[start:end])]
    for is_control in (False, True):
        expected = b"".join(said for code, said in frames if (code is Opcode.PING) == is_control)
        assert b"".join(said for control, said in heard if control == is_control) == expected
    assert reader.is_between


def test_it_is_known_whether_a_frame_has_ended() -> None:
    reader, frame = Frames(), Frame(Opcode.TEXT, b"hello").serialize(mask=True)
    between = [(list(reader.said(frame[at : at + 1])), reader.is_between)[1] for at in range(len(frame))]
    assert between == [False] * (len(frame) - 1) + [True]


def test_a_frame_of_an_extension_is_an_error() -> None:
    with pytest.raises(NoFrame):
        list(Frames().said(b"\xc1\x85" + bytes(4) + b"hello"))


@pytest.mark.parametrize("reason", ["It was not sent.", "x" * 500, "Grüße"])
def test_an_ending_is_a_close_frame_with_its_reason(reason: str) -> None:
    frame = ending(reason)
    assert len(frame) <= 127
    said = Close.parse(frame[2:])
    assert (frame[0], frame[1]) == (0x88, len(frame) - 2)
    assert (int(said.code), said.reason) == (1008, reason.encode("ascii", "replace").decode()[:123])
