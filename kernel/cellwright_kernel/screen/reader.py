"""`python -m cellwright_kernel.screen.reader DISPLAY`: reads what is written on the screen, when it is asked.

Flows in: one request a line, `{"region": [left, top, width, height] or null}`. Flows out: one line each, `{"words":
[[text, left, top, width, height, confidence], ...]}` or `{"error": sentence}`. Decided here: which program reads, what
the picture is turned into before, that only what has changed is read again, and that this process ends when it has been
idle for a minute, or when whoever started it has ended: nothing of it is paid for while nobody reads.

Which one, on a 1440x1000 page with 200 words, two shared cores: tesseract 0.9 s of CPU, 24 MB on disk; rapidocr (its
models on onnxruntime, with opencv) 8.9 s and 285 MB, and it read a line wrongly. But tesseract alone misses what stands
in buttons and fields (a white `Submit` on blue, whatever the scale or threshold). So areas are made white and their
letters dark first, by the distance of each pixel from the median colour around it; then thin long lines, which frame
things, are taken out (0.07 s). With more than one thread of its own it takes ten times as long on a busy machine.
"""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageFilter
from Xlib.display import Display
from Xlib.error import ConnectionClosedError, DisplayError

from cellwright_kernel.boxes import Box, around, grown, overlap
from cellwright_kernel.screen.grab import Grabber
from cellwright_kernel.screen.text import Word

_IDLE_S: Final = 60.0
_READ_S: Final = 20.0
_SCALE: Final = 1.5
"""Letters of 12 pixels are read as they are written only when they are larger."""
_LEAST_CONFIDENCE: Final = 30.0
_LARGE: Final = 24
"""Pixels of height from which a bold letter may be read better at half the size."""
_SURE: Final = 0.6
_MARGIN: Final = 24
_AROUND: Final = 3
"""Pixels by which a word may reach beyond its box."""
_MOSTLY: Final = 0.6
_SPLIT_FROM: Final = 400
"""Pixels of height from which two processes read one half each."""
_NEAR: Final = ((0, 0), (2, 2), (2, -2), (-2, 2), (-2, -2))
_MISSING: Final = "The text on the screen can't be read: the program `tesseract` is not installed in this sandbox."
_COMMAND: Final = ["tesseract", "-", "-", "-l", "eng", "--psm", "11", "tsv"]

Bits = NDArray[np.bool_]


class Page:
    """What was read last, and of which picture."""

    def __init__(self) -> None:
        self._box: Box | None = None
        self._picture = Image.new("L", (1, 1))
        self._words: list[Word] = []

    def words(self, picture: Image.Image, box: Box) -> list[Word]:
        """Return the words of a grey picture that shows `box` of the screen."""
        changed = self._changed(picture, box)
        if changed is not None:
            kept = [word for word in self._words if not overlap(word.box, changed)] if changed != box else []
            left, top, width, height = changed
            x, y = left - box[0], top - box[1]
            self._words = kept + read(picture.crop((x, y, x + width, y + height)), (left, top))
        self._box, self._picture = box, picture
        return self._words

    def _changed(self, picture: Image.Image, box: Box) -> Box | None:
        """What must be read anew: all, a part with the words that it touches, or nothing."""
        if box != self._box:
            return box
        found = ImageChops.difference(picture, self._picture).getbbox()
        if found is None:
            return None
        left, top, right, bottom = found
        area = _within(grown((left + box[0], top + box[1], right - left, bottom - top), _MARGIN), box)
        before = None
        while area != before:  # a word that is touched is read whole, and so may reach the next
            before = area
            for word in self._words:
                if overlap(word.box, area):
                    area = _within(around((area, grown(word.box, _AROUND))), box)
        return box if area[2] * area[3] > _MOSTLY * box[2] * box[3] else area


def read(picture: Image.Image, origin: tuple[int, int]) -> list[Word]:
    """Return the words of a grey picture whose left upper corner is at `origin` of the screen."""
    clean = prepared(picture)
    at = _blank_row(clean)
    parts = [(0, at), (at, picture.height)] if picture.height >= _SPLIT_FROM else [(0, picture.height)]
    with ExitStack() as stack:
        pictures = [(top, clean.crop((0, top, clean.width, bottom))) for top, bottom in parts]
        reading = [(top, stack.enter_context(_begun(part, _SCALE))) for top, part in pictures]
        top, large = large_letters(picture)
        of_large = stack.enter_context(_begun(large, _SCALE)) if large is not None else None
        words = [word for top, process in reading for word in _finish(process, (origin[0], origin[1] + top), _SCALE)]
        if of_large is None:
            return words
        return with_large(words, _finish(of_large, (origin[0], origin[1] + 2 * top), _SCALE / 2))


def large_letters(picture: Image.Image) -> tuple[int, Image.Image | None]:
    """Return the part of a grey picture that has large bold letters, prepared at half its size, and the row where it begins.

    It is what takes half as long again to read; most screens have no such letters.
    """
    small = prepared(picture.resize((max(1, picture.width // 2), max(1, picture.height // 2))))
    dark: Bits = np.asarray(small) < 128
    rows = np.flatnonzero((_runs(dark, _LARGE // 2, 0) & _runs(dark, 3, 1)).any(axis=1))
    if rows.size == 0:
        return 0, None
    top, bottom = max(0, int(rows[0]) - _LARGE), min(small.height, int(rows[-1]) + _LARGE)
    return top, small.crop((0, top, small.width, bottom))


def with_large(words: list[Word], of_half: Iterable[Word]) -> list[Word]:
    """Return the words, with the large ones as they were read at half the size, in place of what was made of them at the whole.

    Bold letters of 40 pixels and more are wider than what is taken for the colour around them, so little is left of them.
    """
    large = [word for word in of_half if word.box[3] >= _LARGE and word.confidence >= _SURE]
    better = [word for word in large if all(word.confidence >= other.confidence for other in _on(words, word))]
    return [word for word in words if not _on(better, word)] + better


def _on(words: Iterable[Word], one: Word) -> list[Word]:
    return [word for word in words if overlap(word.box, one.box)]


def prepared(picture: Image.Image) -> Image.Image:
    """Return a grey picture's letters dark on white, whatever they stood on, without frames."""
    across, down = max(1, picture.width // 4), max(1, picture.height // 4)
    backdrop = picture.resize((across, down), Image.Resampling.NEAREST).filter(ImageFilter.MedianFilter(7))
    pixels = np.asarray(picture).astype(np.int16)
    distance = np.full_like(pixels, 255)
    for x, y in _NEAR:  # the median of a corner is that of what lies around it: a look aside finds the colour it has
        moved = ImageChops.offset(backdrop, x, y).resize(picture.size, Image.Resampling.NEAREST)
        np.minimum(distance, np.abs(pixels - np.asarray(moved)), out=distance)
    ink = np.minimum(255, distance * 2).astype(np.uint8)
    dark: Bits = ink > 24
    upright, level = _runs(dark, 18, 0), _runs(dark, 36, 1)
    # strokes of large letters are long too, but not thin
    lines = (upright & ~_runs(dark, 3, 1)) | (level & ~_runs(dark, 3, 0)) | _runs(dark, 48, 0) | _runs(dark, 90, 1)
    ink[lines] = 0
    return Image.fromarray(255 - ink)


def _runs(dark: Bits, least: int, axis: int) -> Bits:
    """Return which dark pixels belong to a run of at least so many along an axis."""
    bits = dark if axis == 1 else dark.T
    if bits.shape[1] < least:
        return np.zeros_like(dark)
    starts = bits.copy()
    length = 1
    while length < least:  # of every pixel: whether so many dark ones follow it
        shift = min(length, least - length)
        starts[:, :-shift] &= starts[:, shift:].copy()
        starts[:, -shift:] = False
        length += shift
    length = 1
    while length < least:
        shift = min(length, least - length)
        starts[:, shift:] |= starts[:, :-shift].copy()
        length += shift
    return starts if axis == 1 else starts.T


def _blank_row(clean: Image.Image) -> int:
    """Return the row near the middle with the least on it."""
    low, high = int(clean.height * 0.4), max(int(clean.height * 0.6), int(clean.height * 0.4) + 1)
    inked = (np.asarray(clean.crop((0, low, clean.width, high))) < 200).sum(axis=1)
    return low + int(np.argmin(inked))


@contextmanager
def _begun(picture: Image.Image, scale: float) -> Iterator[subprocess.Popen[bytes]]:
    """Begin to read a picture; a process that failed, or takes too long, does not go on beside the next one."""
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    file = io.BytesIO()
    picture.resize(size, Image.Resampling.BICUBIC).save(file, "PPM")
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(_COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdin is not None  # noqa: S101 - for the type checker; it was asked for
    assert process.stdout is not None  # noqa: S101 - the same
    try:
        with process.stdin as to:  # it reads all before it begins
            to.write(file.getvalue())
        process.stdin = None
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _finish(process: subprocess.Popen[bytes], origin: tuple[int, int], scale: float) -> Iterable[Word]:
    out, _ = process.communicate(timeout=_READ_S)
    if process.returncode != 0:
        raise OSError(f"tesseract ended with status {process.returncode}; the screen was not read. Try again.")
    for row in out.decode("utf-8", "replace").splitlines()[1:]:
        fields = row.split("\t")
        if len(fields) < 12 or float(fields[10]) < _LEAST_CONFIDENCE or not fields[11].strip():
            continue
        left, top, width, height = (round(int(side) / scale) for side in fields[6:10])
        place = left + origin[0], top + origin[1], max(1, width), max(1, height)
        yield Word(fields[11].strip(), place, float(fields[10]) / 100)


def _within(area: Box, whole: Box) -> Box:
    both = overlap(area, whole)
    assert both is not None  # noqa: S101 - for the type checker; what is read lies in it
    return both


def _answer(request: dict[str, Any], grabber: Grabber, page: Page) -> dict[str, Any]:
    try:
        picture = grabber.grab(request["region"]).convert("L")
        left, top = (int(side) for side in (request["region"] or (0, 0))[:2])
        words = page.words(picture, (left, top, picture.width, picture.height))
    except FileNotFoundError:
        return {"error": _MISSING}
    except (ValueError, subprocess.TimeoutExpired, OSError) as error:
        return {"error": str(error)}
    return {"words": [[word.text, word.box, word.confidence] for word in words]}


def main(display: str) -> None:
    """Answer until standard input ends or nobody has asked for a while."""
    try:
        grabber, page = Grabber(Display(display)), Page()
        while select.select([0], [], [], _IDLE_S)[0] and (line := sys.stdin.buffer.readline()):
            sys.stdout.write(json.dumps(_answer(json.loads(line), grabber, page)) + "\n")
            sys.stdout.flush()
    except (ConnectionClosedError, DisplayError, BrokenPipeError):
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
