"""What tesseract is given, and what it reads of a drawn screen."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.waiting import GUARD_S

from cellwright_kernel.desktop import Desktop
from cellwright_kernel.screen import reader

pytestmark = [pytest.mark.slow]

_FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")
_WHOLE = (0, 0, 600, 300)


def _screen() -> Image.Image:
    """Dark on light, light on dark, in a button, in a field, and a large headline."""
    picture = Image.new("RGB", _WHOLE[2:], "#f6f7f9")
    draw = ImageDraw.Draw(picture)
    small, large = ImageFont.truetype(str(_FONT), 14), ImageFont.truetype(str(_FONT), 40)
    draw.rectangle((0, 0, 600, 40), "#1f4e79")
    draw.text((20, 12), "Quarterly expenses", "white", small)
    draw.text((20, 60), "Hello World", "#222222", large)
    draw.rectangle((20, 150, 100, 184), "#1f6fb2")
    draw.text((37, 158), "Submit", "white", small)
    draw.rectangle((200, 150, 400, 174), "white", "#767676")
    draw.text((205, 153), "train tickets", "black", small)
    draw.text((20, 240), "Total 675.00 EUR", "#222222", small)
    return picture.convert("L")


def _texts(words: list[reader.Word]) -> set[str]:
    return {word.text for word in words}


def test_text_is_read_whatever_it_stands_on() -> None:
    words = reader.Page().words(_screen(), _WHOLE)
    wanted = {"Quarterly", "expenses", "Hello", "World", "Submit", "train", "tickets", "Total", "675.00", "EUR"}
    assert wanted <= _texts(words)
    (submit,) = [word for word in words if word.text == "Submit"]
    left, top, width, _ = submit.box
    assert (abs(left - 37) <= 3, abs(top - 161) <= 4, abs(width - 49) <= 6) == (True,) * 3


def test_a_region_gives_places_on_the_screen() -> None:
    part = _screen().crop((180, 130, 480, 200))
    words = reader.Page().words(part, (180, 130, 300, 70))
    (train,) = [word for word in words if word.text == "train"]
    left, top, _, _ = train.box
    assert (abs(left - 205) <= 3, abs(top - 156) <= 4) == (True, True)


def test_only_what_changed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page, picture = reader.Page(), _screen()
    page.words(picture, _WHOLE)
    sizes = []
    read = reader.read

    def counted(part: Image.Image, origin: tuple[int, int]) -> list[reader.Word]:
        sizes.append(part.size)
        return read(part, origin)

    monkeypatch.setattr(reader, "read", counted)
    assert "Submit" in _texts(page.words(picture.copy(), _WHOLE))
    assert sizes == []
    picture = picture.copy()
    draw = ImageDraw.Draw(picture)
    draw.rectangle((15, 235, 200, 265), 246)
    draw.text((20, 240), "Sent", 34, ImageFont.truetype(str(_FONT), 14))
    words = _texts(page.words(picture, _WHOLE))
    assert {"Sent", "Submit", "World"} <= words
    assert "Total" not in words
    assert len(sizes) == 1
    assert sizes[0][0] * sizes[0][1] < 0.3 * 600 * 300


@pytest.mark.parametrize("end", ["idle", "closed"])
async def test_the_process_that_reads_ends_when_nobody_needs_it(bare_desktop: Desktop, end: str) -> None:
    idle_s = 0.1 if end == "idle" else 60
    code = (
        f"from cellwright_kernel.screen import reader; reader._IDLE_S = {idle_s}; reader.main({bare_desktop.display!r})"
    )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=pipe, stdout=pipe)
    try:
        assert process.stdin
        if end == "closed":
            process.stdin.close()
        async with asyncio.timeout(GUARD_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()


def test_what_takes_too_long_to_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_COMMAND", ["sh", "-c", "cat > /dev/null; exec sleep 60"])
    monkeypatch.setattr(reader, "_READ_S", 0.1)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    with pytest.raises(subprocess.TimeoutExpired):
        reader.read(_screen(), (0, 0))
    assert children.read_text() == before
