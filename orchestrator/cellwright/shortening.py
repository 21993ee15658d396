"""When less of the history is sent: before a request that would be large, and after one that the server found too long.

Flows in: the history, the terms, a way to ask the model. Flows out: the same history, shorter, with a record of each step. Decided
here: when old pictures go and when the model sums up; that it is asked for its summary with what the server has in its cache
already and took before, so that this request is never too long; and that without a summary nothing of the text goes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from cellwright.answer import said
from cellwright.conversation import check_usable
from cellwright.endings import RunEnded
from cellwright.errors import ModelError
from cellwright.estimate import tokens_of
from cellwright.history import History, Pictures, user_item
from cellwright.model.base import Item, Response
from cellwright.record.records import HistoryShortened, Note, Record

SUM_UP: Final = """\
To save room, what was said and done up to here will soon no longer be sent. What stays: the task and what else the user said, \
your own summary, and the turn that comes after this. Write that summary now, for yourself, and make no call: what was done, with \
the names of variables, files, pages and places on the screen that are still needed; what you saw and found out, with its \
numbers and words; what failed, and why; what is left to do."""
SUMMING_UP: Final = "summing_up"
"""Topic of the note with what the model was asked for its summary with; neither stays in the history."""

_WORTH_CHARS: Final = 1_000
"""A summary that was cut off takes the history's place from so many characters on."""
_SUMMARY_CHARS: Final = 40_000
_WORTH: Final = 4
"""A summary is asked for when what would go is at least this part of the threshold: else the next turn would ask again."""
_TOO_LONG: Final = "context_length_exceeded"


class Shortening:
    """How the history of one run is kept short.

    Args:
        history: The history.
        pictures: How many pictures are sent; absent: all.
        compact_at: Estimated tokens of a request above which the model sums up first; absent: it never does so by itself.
        ask: Asks the model with these items, without calls; gives None where the budget does not hold that.
        record: Keeps a record.
    """

    def __init__(
        self,
        history: History,
        *,
        pictures: Pictures | None,
        compact_at: int | None,
        ask: Callable[[tuple[Item, ...]], Awaitable[Response | None]],
        record: Callable[[Record], object],
    ) -> None:
        self._history = history
        self._pictures = pictures
        self._compact_at = compact_at
        self._ask = ask
        self._record = record

    async def before_request(self, beside: int) -> None:
        """Leave out what the terms say.

        Args:
            beside: Estimated tokens of what is sent besides the history.

        Raises:
            ModelError: The model could not be asked for a summary.
        """
        if self._pictures is not None and self._history.pictures > self._pictures.most:
            self._drop(self._pictures.kept)
        if self._compact_at is None or beside + sum(map(tokens_of, self._history)) <= self._compact_at:
            return
        if sum(map(tokens_of, self._history.summable)) * _WORTH >= self._compact_at and not await self._sum_up():
            self._compact_at = None  # it can't: it is not asked again and again

    async def makes_room(self, error: ModelError) -> bool:
        """Leave out what can be, where a request was refused as too long; return whether there is a shorter one to be made.

        Old pictures go first, text only when that was not enough: each is a step of its own, so that a run which is stopped
        between the two goes on with the same ones. After both there is nothing that could go.
        """
        if error.refused_with != 400 or error.code != _TOO_LONG:
            return False
        if self._drop((self._pictures or Pictures()).kept):
            return True
        try:
            return await self._sum_up()
        except ModelError:
            return False

    def _drop(self, kept: int) -> bool:
        dropped = self._history.drop_pictures(kept)
        if dropped:
            self._record(HistoryShortened(how="pictures", pictures_kept=kept, pictures_dropped=dropped))
        return dropped > 0

    async def _sum_up(self) -> bool:
        if not self._history.summable:
            return False
        self._record(Note(topic=SUMMING_UP, text=SUM_UP))
        response = await self._ask((*self._history.before_last_turn, user_item(SUM_UP)))
        if response is None:
            return False
        is_cut_off = response.cut_off_at is not None  # then it is shorter than it would have been, and paid for
        try:
            check_usable(replace(response, status="completed") if is_cut_off else response)
        except RunEnded:
            return False
        words = "\n".join(message.text for message in response.messages if message.text)
        summary = said(words.strip()[:_SUMMARY_CHARS])["text"]
        if not summary or (is_cut_off and len(summary) < _WORTH_CHARS):
            return False
        self._history.sum_up(summary)
        self._record(HistoryShortened(how="summary", summary=summary))
        return True
