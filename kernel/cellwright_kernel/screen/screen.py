"""`screen`: what a cell sees of the desktop, under one name in both languages.

Flows in: regions, texts, time limits. Flows out: pictures, `Settled`, `Change`, `Match`. Decided here: what a look is
(each picture of the whole screen), the longest waits, and that whatever takes time is done in a thread of its own, so
that the caller can be interrupted at any moment, and gets an answer also when the X server gives none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final, TypeVar

from PIL import Image, ImageChops

from cellwright_kernel.boxes import Box
from cellwright_kernel.screen.loop_thread import LoopThread
from cellwright_kernel.screen.pages import Pages
from cellwright_kernel.screen.pictures import OwnConnection, Pictures
from cellwright_kernel.screen.reading import Reading
from cellwright_kernel.screen.stillness import Settled, settle
from cellwright_kernel.screen.text import Match, Matches, Word, lines, matches, read_instead

_LONGEST_S: Final = 600.0
_MOST_ACROSS: Final = 8192
_GRACE_S: Final = 3.0
"""What an answer may take beyond its limit before the display counts as one that gives none."""
_READ_S: Final = 30.0
_READ_AGAIN_S: Final = 0.1
_SETTLES_AT_ONCE: Final = 8
"""Each has a connection of its own; a display takes 256, and programs need them too."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Change:
    """What is different from the last look; true when something is."""

    box: Box | None
    """Left, top, width, height of all that differs; None when nothing does."""

    def __bool__(self) -> bool:
        return self.box is not None

    def __await__(self) -> Generator[None, None, Change]:
        """So that `await screen.changed()` is right as well."""
        return self
        yield


def blocking(future: Future[_T], limit_s: float) -> _T:
    """Wait for a future in this thread; an interrupt cancels it.

    Raises:
        TimeoutError: it was not done within `limit_s` seconds.
    """
    try:
        return future.result(limit_s)
    except BaseException:
        future.cancel()
        raise


class Screen:
    """See the desktop: shot(), settle(), changed(), zoom(), find_text(), wait_text().

    A region is (left, top, width, height) in pixels of the screen; all results are in the same pixels.

    Args:
        name: The display's, such as `:1`.
        pictures: Takes its pictures.
        devtools: Address of Chromium's DevTools; absent where there is no browser.
        wait: Waits for a future, up to a number of seconds.
    """

    def __init__(
        self,
        name: str,
        pictures: Pictures,
        devtools: str | None,
        wait: Callable[[Future[Any], float], Any] = blocking,
    ) -> None:
        self._name = name
        self._pictures = pictures
        self._wait = wait
        self._thread = LoopThread("screen")
        self._pages = Pages(devtools) if devtools else None
        self._reading = Reading(name)
        self._idle: list[OwnConnection] = []
        self._places = asyncio.Semaphore(_SETTLES_AT_ONCE)
        self._left: set[asyncio.Task[Any]] = set()
        pictures.keeps_last = True

    def __repr__(self) -> str:
        return f"<screen {self._name}: shot, settle, changed, zoom, find_text, wait_text>"

    def begin(self) -> Future[None]:
        """Begin to listen to the browser, and take the first look; the future is done when both are."""
        return self._thread.submit(self._begin())

    def shot(self, region: Sequence[float] | None = None) -> Image.Image:
        """Return a picture of the screen, or of a region of it.

        Raises:
            ValueError: the region is not within the screen.
        """
        return self._pictures.take(region)

    def zoom(self, region: Sequence[float], factor: float = 2) -> Image.Image:
        """Return a picture of a region, `factor` times as large, to look at details.

        Raises:
            TypeError: `factor` is no number.
            ValueError: the region is not within the screen, or the picture would be too large.
        """
        if not isinstance(factor, Real):
            raise TypeError(f"factor is a number above 0, such as 2; it was {factor!r}.")
        if not 0 < factor <= _MOST_ACROSS:
            raise ValueError(f"factor is a number above 0, at most {_MOST_ACROSS}; it was {factor!r}.")
        picture = self._pictures.take(region)
        size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
        if max(size) > _MOST_ACROSS:
            raise ValueError(
                f"A picture {factor:g} times as large would have {size[0]}x{size[1]} pixels; at most {_MOST_ACROSS} each "
                "way can be had. Take a smaller region or factor."
            )
        return picture.resize(size, Image.Resampling.LANCZOS)

    def changed(self) -> Change:
        """Compare with the last look (any picture of the whole screen), and look.

        Returns:
            False in a condition when no pixel differs; else its `box` is where.
        """
        before = self._pictures.last
        now = self._pictures.take()
        if before is None or before.size != now.size:
            return Change((0, 0, now.width, now.height))
        found = ImageChops.difference(before, now).getbbox()
        return Change(found and (found[0], found[1], found[2] - found[0], found[3] - found[1]))

    def settle(self, timeout: float = 5.0) -> Settled:
        """Wait until the screen is still: nothing is drawn, no page loads, fetches or animates.

        Args:
            timeout: Seconds after which it returns in any case.

        Returns:
            Its `reason` is `still`, `unresponsive` or `timeout`; true only when still.
        """
        limit = limit_of(timeout)
        return self._do(self._settle(limit), limit + _GRACE_S)

    def find_text(self, text: str, region: Sequence[float] | None = None) -> Matches:
        """Read the screen and return where `text` stands, in reading order; case and white space make no difference.

        Returns:
            A list of matches, each with `text`, `box`, `center` and `confidence`; empty when it is nowhere: then `[0]` raises
            LookupError, with what was read instead. Text is read in English: words with accents, and letters of more than
            some 40 pixels, are often misread.

        Raises:
            TypeError: `text` is no `str`.
            ValueError: it is empty.
            CannotRead: the screen could not be read.
        """
        matches([], text)  # what cannot be sought is told of at once
        return matches(self._do(self._reading.words(_whole(region)), _READ_S), text)

    def wait_text(self, text: str, timeout: float = 10.0, region: Sequence[float] | None = None) -> Match:
        """Read the screen until `text` stands on it, and return the first match.

        Args:
            text: As for `find_text`.
            timeout: Seconds.
            region: Where to look; the whole screen unless given.

        Raises:
            TimeoutError: it did not appear; the message names what is most alike.
            CannotRead: the screen could not be read.
        """
        limit = limit_of(timeout)
        matches([], text)  # as above
        found, words = self._do(self._until_read(text, limit, _whole(region)), limit + _GRACE_S)
        if found is None:
            raise TimeoutError(_not_there(text, timeout, words))
        return found

    def _do(self, work: Coroutine[Any, Any, _T], limit_s: float) -> _T:
        if self._thread.is_new and self._pages is not None:
            self.begin()
        try:
            return self._wait(self._thread.submit(work), limit_s)  # type: ignore[no-any-return]
        except TimeoutError:
            raise TimeoutError(
                f"The display {self._name} did not answer for {limit_s:g} s. Usually its server is stopped or busy. "
                "Variables are kept."
            ) from None

    async def _begin(self) -> None:
        if self._pages is not None:
            await self._pages.listen()
        if self._pictures.last is None:
            await asyncio.to_thread(self._pictures.take)

    async def _settle(self, limit_s: float) -> Settled:
        if self._pages is not None:
            await self._pages.listen()
        end = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s):
                await self._places.acquire()
        except TimeoutError:
            return Settled("timeout", limit_s, (f"{_SETTLES_AT_ONCE} other waits for the screen",))
        left_s = max(0.0, end - time.monotonic())
        connection = self._idle.pop() if self._idle else OwnConnection(self._name)
        try:
            with connection.use() as display:
                return await settle(display, self._pages, left_s)
        finally:
            if self._idle:
                connection.close()
            else:  # one is kept for the next wait
                self._idle.append(connection)
            self._places.release()

    async def _until_read(self, text: str, limit_s: float, region: Box | None) -> tuple[Match | None, list[Word]]:
        end = time.monotonic() + limit_s
        words: list[Word] = []
        while (left_s := end - time.monotonic()) > 0:
            reading = asyncio.ensure_future(self._reading.words(region))
            self._left.add(reading)
            reading.add_done_callback(self._over)
            try:
                await asyncio.wait({reading}, timeout=left_s)
            except asyncio.CancelledError:
                reading.cancel()
                raise
            if not reading.done():  # it goes on, for whoever asks next
                break
            words = reading.result()
            if found := matches(words, text):
                return found[0], words
            await asyncio.sleep(min(_READ_AGAIN_S, max(0.0, end - time.monotonic())))
        return None, words

    def _over(self, reading: asyncio.Task[Any]) -> None:
        self._left.discard(reading)
        if not reading.cancelled():
            reading.exception()  # of one that nobody waits for any more asyncio would complain, in some later cell


def limit_of(timeout: float) -> float:
    """Return a time limit in seconds as it was given, if it is one.

    Raises:
        ValueError: it is none, or too long.
    """
    if not (isinstance(timeout, int | float) and 0 <= timeout <= _LONGEST_S):
        raise ValueError(f"timeout is in seconds, from 0 to {_LONGEST_S:g}; it was {timeout!r}.")
    return float(timeout)


def _whole(region: Sequence[float] | None) -> Box | None:
    if region is None:
        return None
    return tuple(int(side) for side in region)  # type: ignore[return-value]  # the reader says whether it is one


def _not_there(text: str, timeout: float, words: Sequence[Word]) -> str:
    return f"{text!r} did not appear on the screen within {timeout:g} s; {read_instead(text, lines(words))}"
