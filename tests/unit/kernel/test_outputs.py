"""What a cell's messages become. Messages are written here as kernels send them."""

import base64
import io
from typing import Any

import pytest
from PIL import Image as Pillow

from cellwright_kernel.ceilings import CELL_CHARS, CELL_ITEMS, ITEM_CHARS
from cellwright_kernel.outputs import NOTHING_SAID, Outputs
from cellwright_kernel.wire import Image, KeptEvent, Text, gather, in_order


def message(kind: str, note: dict[str, Any] | None = None, **content: Any) -> dict[str, Any]:
    return {"header": {"msg_type": kind}, "parent_header": {}, "metadata": note or {}, "content": content}


def wrote(text: str, name: str = "stdout") -> dict[str, Any]:
    return message("stream", name=name, text=text)


def logged(text: str) -> dict[str, Any]:
    return message("display_data", data={"text/plain": text}, metadata={"cellwright": {"source": "log"}})


def shown(data: dict[str, Any], display_id: str | None = None, kind: str = "display_data") -> dict[str, Any]:
    transient = {"display_id": display_id} if display_id else {}
    return message(kind, data=data, metadata={"cellwright": {"source": "display"}}, transient=transient)


def picture(width: int = 8, height: int = 6, form: str = "PNG") -> str:
    out = io.BytesIO()
    Pillow.new("RGB", (width, height), "red").save(out, form)
    return base64.b64encode(out.getvalue()).decode()


class Gathered:
    """The outside's side: events in, the list of outputs out."""

    def __init__(self, outputs: Outputs | None = None) -> None:
        self.outputs = outputs or Outputs()
        self._by_number: dict[int, Text | Image] = {}
        self.kept: dict[int, str] = {}

    def read(self, events: Any) -> None:
        for event in events:
            gather(self._by_number, event)
            if isinstance(event, KeptEvent):
                self.kept[event.number] = self.kept.get(event.number, "") + event.text

    def of(self, *messages: dict[str, Any], take_between: bool = False) -> list[Text | Image]:
        for one in messages:
            self.outputs.add(one)
            if take_between:
                self.read(self.outputs.take())
        self.read(self.outputs.close())
        return list(in_order(self._by_number))

    def texts(self, *messages: dict[str, Any], take_between: bool = False) -> list[str]:
        return [o.text if isinstance(o, Text) else o.media_type for o in self.of(*messages, take_between=take_between)]


@pytest.fixture
def gathered() -> Gathered:
    return Gathered()


def test_a_run_of_writes_to_one_stream_is_one_item(gathered):
    assert gathered.of(wrote("a"), wrote("b\n"), wrote("c")) == [Text(text="ab\nc", source="stdout")]


def test_order_is_kept_across_streams_log_display_results_and_errors(gathered):
    found = gathered.of(
        wrote("1\n"),
        wrote("2\n", "stderr"),
        logged("3"),
        wrote("4\n"),
        shown({"image/png": picture()}),
        message("execute_result", data={"text/plain": "6"}, metadata={}, execution_count=1),
        message("error", ename="ValueError", evalue="7", traceback=["Traceback", "ValueError: 7"]),
    )
    assert [(o.source, o.text) if isinstance(o, Text) else (o.type, o.width) for o in found] == [
        ("stdout", "1\n"),
        ("stderr", "2\n"),
        ("log", "3"),
        ("stdout", "4\n"),
        ("image", 8),
        ("result", "6"),
        ("error", "Traceback\nValueError: 7"),
    ]


def test_log_is_exact(gathered):
    assert gathered.texts(logged("42"), logged(""), logged("\x1b[31m\r\b")) == ["42", "", "\x1b[31m\r\b"]


def test_lone_surrogates_never_leave(gathered):
    assert gathered.texts(logged("a\ud800"), wrote("b\udc80")) == ["a\ufffd", "b\ufffd"]


def test_a_progress_bar_leaves_its_last_state(gathered):
    bar = [wrote(f"\r{n:3}%", "stderr") for n in range(101)]
    assert gathered.texts(*bar, wrote("\ndone\n", "stderr")) == ["100%\ndone\n"]


def test_a_cell_that_says_nothing_gives_one_sentence(gathered):
    assert gathered.of() == [Text(text=NOTHING_SAID, source="notice")]


def test_late_output_alone_is_not_what_the_cell_said(gathered):
    gathered.outputs.add(wrote("late"), of_cell=3)
    assert gathered.of() == [
        Text(text="late", source="stdout", of_cell=3),
        Text(text=NOTHING_SAID, source="notice"),
    ]


def test_late_output_is_never_joined_with_the_cells_own(gathered):
    gathered.outputs.add(wrote("bg 1\n"), of_cell=1)
    gathered.outputs.add(wrote("own\n"))
    gathered.outputs.add(wrote("bg 2\n"), of_cell=1)
    assert [(o.of_cell, o.text) for o in gathered.of()] == [(1, "bg 1\n"), (None, "own\n"), (1, "bg 2\n")]


def test_late_output_cannot_push_out_what_the_cell_says(gathered):
    for number in range(500):
        gathered.outputs.add(logged(f"late {number}"), of_cell=1)
    found = gathered.texts(*(logged(f"own {number}") for number in range(70)))
    assert [text for text in found if text.startswith("own")] == [f"own {number}" for number in range(70)]
    assert len([text for text in found if text.startswith("late")]) == 20
    assert found[-1] == "[480 outputs with 4,240 characters that came late from earlier cells are left out here.]"


def test_one_thing_in_several_encodings_is_one_item(gathered):
    data = {"text/plain": "<Image>", "image/png": picture(), "image/jpeg": picture(form="JPEG")}
    assert [o.media_type for o in gathered.of(shown(data))] == ["image/png"]


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_passed_on_byte_for_byte(gathered, form):
    encoded = picture(640, 480, form)
    media_type = f"image/{form.lower()}"
    assert gathered.of(shown({media_type: encoded})) == [
        Image(media_type=media_type, width=640, height=480, data=base64.b64decode(encoded))
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("notbytes!", "its data is not base64"),
        (base64.b64encode(b"no picture").decode(), "its data has no header of PNG, JPEG or WebP"),
        (picture(form="JPEG"), "its data is image/jpeg"),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0").decode(), "the data ends within the header"),
        (
            base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\1\0\0" * 2).decode(),
            "it has 65536 x 65536 pixels, more than the 50,000,000 that can be shown",
        ),
        (base64.b64encode(b"\xff\xd8\xff\xe0\0\4ab").decode(), "the data ends within the header"),
        (7, "its data is no base64 text but int"),
    ],
)
def test_what_is_no_picture_falls_back_to_its_text_and_says_so(gathered, data, reason):
    assert gathered.of(shown({"image/png": data, "text/plain": "B()"})) == [
        Text(text=f"What was shown as image/png is no picture: {reason}.", source="notice"),
        Text(text="B()", source="display"),
    ]


def test_a_picture_larger_than_the_limit_is_scaled_and_the_factor_told():
    gathered = Gathered(Outputs(width=100, height=100))
    sentence, image = gathered.of(shown({"image/png": picture(400, 200)}))
    assert sentence == Text(
        text="The next image was scaled from 400 x 200 to 100 x 50 pixels: multiply coordinates seen in it by 4.",
        source="notice",
    )
    assert (image.width, image.height) == (100, 50)
    assert Pillow.open(io.BytesIO(image.data)).size == (100, 50)


def test_a_broken_picture_that_would_be_scaled_falls_back_too():
    half = base64.b64decode(picture(400, 200))[:60]
    found = Gathered(Outputs(width=100, height=100)).texts(shown({"image/png": base64.b64encode(half).decode()}))
    assert "it can't be decoded" in found[0]


def test_an_error_is_one_item_without_colours(gathered):
    frames = ["\x1b[0;31mTraceback\x1b[0m", "  line 1", "ZeroDivisionError: division by zero"]
    assert gathered.texts(message("error", ename="ZeroDivisionError", evalue="division by zero", traceback=frames)) == [
        "Traceback\n  line 1\nZeroDivisionError: division by zero"
    ]


def test_an_error_without_frames_names_itself(gathered):
    assert gathered.texts(message("error", ename="E", evalue="why", traceback=[])) == ["E: why"]


def test_a_frame_is_replaced_by_the_next_after_clear_output(gathered):
    frames = [m for n in range(50) for m in (wrote(f"frame {n}\n"), message("clear_output", wait=True))]
    assert gathered.texts(*frames, wrote("done\n")) == ["done\n"]


@pytest.mark.parametrize("take_between", [False, True])
def test_clear_output_withdraws_what_was_sent_already(gathered, take_between):
    found = gathered.texts(
        logged("1"),
        shown({"image/png": picture()}),
        wrote("writing"),
        message("clear_output", wait=False),
        logged("2"),
        take_between=take_between,
    )
    assert found == ["2"]


def test_clear_output_without_a_next_output_keeps_the_last(gathered):
    assert gathered.texts(wrote("last\n"), message("clear_output", wait=True)) == ["last\n"]


def test_clear_output_of_a_late_thread_leaves_this_cell_alone(gathered):
    gathered.outputs.add(logged("own"))
    gathered.outputs.add(logged("late"), of_cell=1)
    gathered.outputs.add(message("clear_output", wait=False), of_cell=1)
    assert gathered.texts() == ["own"]


@pytest.mark.parametrize("take_between", [False, True])
def test_an_update_takes_the_place_of_what_it_updates(gathered, take_between):
    found = gathered.of(
        shown({"text/plain": "0%"}, "bar"),
        logged("between"),
        *(shown({"text/plain": f"{n}%"}, "bar", "update_display_data") for n in (50, 100)),
        take_between=take_between,
    )
    assert [o.text for o in found] == ["100%", "between"]


def test_an_update_replaces_every_picture_of_its_id(gathered):
    one, other = picture(8, 6), picture(9, 7)
    found = gathered.of(
        shown({"image/png": one}, "a"),
        shown({"image/png": one}, "a"),
        shown({"image/png": other}, "a", "update_display_data"),
    )
    assert [o.width for o in found] == [9, 9]


def test_an_update_of_nothing_is_nothing(gathered):
    assert gathered.texts(shown({"text/plain": "x"}, "unknown", "update_display_data")) == [NOTHING_SAID]


def test_a_long_text_is_cut_and_kept_whole(gathered):
    text = "".join(f"line {number}\n" for number in range(5000))
    (found,) = gathered.of(wrote(text))
    assert len(found.text) <= ITEM_CHARS
    assert found.missing_chars > 30_000
    assert gathered.kept == {0: text}
    assert gathered.outputs.truncated


def test_as_much_as_the_ceilings_allow_is_not_cut(gathered):
    assert gathered.texts(*(logged("x" * ITEM_CHARS) for _ in range(5))) == ["x" * ITEM_CHARS] * 5
    assert not gathered.outputs.truncated


def test_a_hundred_items_are_not_cut(gathered):
    assert gathered.texts(*(logged(str(n)) for n in range(CELL_ITEMS))) == [str(n) for n in range(CELL_ITEMS)]
    assert not gathered.outputs.truncated


@pytest.mark.parametrize("take_between", [False, True])
def test_too_many_items_lose_their_middle(gathered, take_between):
    found = gathered.texts(*(logged(f"item {n}") for n in range(1000)), take_between=take_between)
    assert len(found) <= CELL_ITEMS
    assert found[:80] == [f"item {n}" for n in range(80)]
    assert found[80].startswith("[... 902 outputs with ")
    assert found[81:] == [f"item {n}" for n in range(982, 1000)]
    assert gathered.kept[80] == "".join(f"item {n}\n" for n in range(80, 982))
    assert gathered.outputs.truncated


def test_too_many_characters_lose_their_middle(gathered):
    found = gathered.texts(*(logged(f"{n:02}" + "x" * 9998) for n in range(20)))
    assert sum(map(len, found)) <= CELL_CHARS
    assert [text[:2] for text in found] == ["00", "01", "02", "03", "[.", "19"]


def test_an_error_after_a_flood_is_seen(gathered):
    found = gathered.texts(
        *(logged("x" * 5000) for _ in range(300)), message("error", ename="E", evalue="why", traceback=["E: why"])
    )
    assert found[-1] == "E: why"


def test_a_notice_of_ours_is_kept_through_clearing_and_flood(gathered):
    gathered.outputs.add(logged("x"))
    gathered.outputs.note("The browser ended.")
    gathered.outputs.add(message("clear_output", wait=False))
    assert gathered.texts() == ["The browser ended."]


def test_characters_counted_at_the_source_are_counted_here(gathered):
    (found,) = gathered.of(
        wrote("start\n"),
        message("stream", {"cellwright": {"seq": 4, "missing_chars": 1_000_000}}, name="stdout", text="end\n"),
    )
    assert found.missing_chars == 1_000_000
    assert found.text.startswith("start\n[... 1,000,000 of 1,000,010 characters are left out")
    assert found.text.endswith("end\n")


def test_characters_of_logs_counted_at_the_source_are_counted_here(gathered):
    late = logged("end")
    late["metadata"] = {"cellwright": {"seq": 4, "missing_chars": 1_000_000}}
    (found,) = gathered.of(late)
    assert found.missing_chars == 1_000_000
    assert found.text.startswith("\n[... 1,000,000 of 1,000,003 characters are left out")
    assert found.text.endswith("...]\nend")


@pytest.mark.parametrize("text", ["", "END\n"])
def test_outputs_counted_at_the_source_are_told_in_their_place(gathered, text):
    counted = message("stream", {"cellwright": {"missing_items": 24}}, name="stderr", text=text)
    first, told, *rest = gathered.texts(logged("first"), counted)
    assert first == "first"
    assert told.startswith("[... 24 outputs stood here and are left out: a cell may show 100 outputs")
    assert rest == ([text] if text else [])
    assert gathered.outputs.truncated


def test_outputs_counted_at_the_source_join_those_cut_here(gathered):
    counted = message("stream", {"cellwright": {"missing_items": 24}}, name="stderr", text="")
    texts = gathered.texts(*[logged(f"{i}") for i in range(105)], counted, logged("last"))
    (told,) = [text for text in texts if text.startswith("[...")]
    assert told.startswith("[... 32 outputs stood here and are left out")
    assert (texts[79], texts[80], texts[-1]) == ("79", told, "last")


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"header": 1, "content": 2},
        message("stream", name=5, text=7),
        message("stream", name="stdout"),
        message("display_data", data="text", metadata=[], transient=3),
        message("display_data", data={"image/png": None}),
        message("update_display_data", data={}, transient={"display_id": ["x"]}),
        message("error", ename=None, evalue={}, traceback="abc"),
        message("execute_result"),
        message("clear_output", wait="maybe"),
        message("unheard_of"),
        message("stream", {"cellwright": {"missing_chars": -5}}, name="stdout", text=""),
        message("stream", {"cellwright": {"missing_chars": 1.5, "missing_items": "many"}}, name="stdout", text=""),
    ],
)
def test_a_forged_message_does_no_harm(gathered, forged):
    gathered.outputs.add(forged)
    assert "own" in gathered.texts(logged("own"))


def test_pieces_for_live_views_are_bounded_and_bare(gathered):
    gathered.outputs.add(wrote("\x1b[31mred\x1b[0m\n"))
    gathered.outputs.add(wrote("more\n"))
    gathered.outputs.add(wrote("e\n", "stderr"))
    gathered.outputs.add(wrote("x" * 100_000))
    pieces = list(gathered.outputs.take_pieces())
    assert [(piece.source, piece.text[:9]) for piece in pieces] == [
        ("stdout", "red\nmore\n"),
        ("stderr", "e\n"),
        ("stdout", "xxxxxxxxx"),
    ]
    assert sum(len(piece.text) for piece in pieces) <= 16_384
    assert list(gathered.outputs.take_pieces()) == []
