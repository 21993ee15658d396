"""What another program copied is kept before it is told, and is there after its end; on a real display."""

from __future__ import annotations

import threading

import pytest
from tests.waiting import GUARD_S, until
from Xlib import X
from Xlib.display import Display

from cellwright_kernel.clipboard.errors import ClipboardError
from cellwright_kernel.clipboard.reading import Reading
from cellwright_kernel.clipboard.selections import Selections
from cellwright_kernel.desktop import Desktop

pytestmark = [pytest.mark.slow]


async def test_a_text_that_is_copied_while_another_is_read_is_kept_once_it_was_told(
    bare_desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program hangs as soon as the text was told, and then ends: there is no second time to read it."""
    ours, program = Selections(bare_desktop.display), Selections(bare_desktop.display)
    is_asked, is_told, has_copied = threading.Event(), threading.Event(), threading.Event()
    read_text = Reading.text

    def text(reading: Reading, selection: int) -> bytes:
        assert is_asked.wait(GUARD_S)
        if is_told.is_set():
            raise ClipboardError("It hangs.")
        if not has_copied.is_set():
            program.write("CLIPBOARD", b"copied").result(GUARD_S)
            has_copied.set()
        return read_text(reading, selection)

    def read_now() -> bytes:
        try:
            return ours.read("CLIPBOARD").result(GUARD_S)
        except ClipboardError:
            return b""

    monkeypatch.setattr(Reading, "text", text)
    ours.start()
    program.start()
    try:
        reading = ours.read("CLIPBOARD")
        reading.add_done_callback(lambda _: is_told.set())
        is_asked.set()
        assert reading.result(GUARD_S) == b"copied"
        program.stop()
        await until(lambda: read_now() == b"copied")
    finally:
        program.stop()
        ours.stop()


async def test_a_text_is_there_as_soon_as_the_program_that_copied_it_has_ended(bare_desktop: Desktop) -> None:
    """Also where the word of its end and the wish to read come at once."""
    ours, program = Selections(bare_desktop.display), Selections(bare_desktop.display)
    ours.start()
    program.start()
    display = Display(bare_desktop.display)
    clipboard, may_go_on = display.intern_atom("CLIPBOARD"), threading.Event()
    try:
        program.write("CLIPBOARD", b"copied").result(GUARD_S)
        assert ours.read("CLIPBOARD").result(GUARD_S) == b"copied"
        held_up = ours._do(lambda _: may_go_on.wait(GUARD_S))
        program.stop()
        await until(lambda: display.get_selection_owner(clipboard) == X.NONE)
        reading = ours.read("CLIPBOARD")
        may_go_on.set()
        assert (held_up.result(GUARD_S), reading.result(GUARD_S)) == (True, b"copied")
    finally:
        may_go_on.set()
        program.stop()
        ours.stop()
        display.close()
