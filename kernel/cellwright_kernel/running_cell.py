"""A cell while it runs.

Flows in: messages that belong to it, and how its end came. Flows out: events for whoever posted it. Decided here: it has
ended when the reply and `idle` have both come, or the kernel died, or it was given up; that a reply alone ends nothing but
the ladder, since what was said before it may still be on its way; how often its events are sent;
what it tells at its end of what the way out refused meanwhile; that nobody has to listen: a listener who leaves takes nothing with him, the cell goes on to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final, Literal

from cellwright_kernel import sentences
from cellwright_kernel.deadline import Clock, Ladder
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.wire import CellStatus, ClosedEvent, Event, Execute, HeartbeatEvent, SecretAskedEvent
from cellwright_kernel.wire_people import QUESTIONS, PersonAskedEvent, QuestionDroppedEvent

End = Literal["finished", "kernel_died", "given_up"]

_PIECES_EVERY_S: Final = 0.05
_OUTPUTS_EVERY_S: Final = 0.25
"""Outputs are held back so long, so that the frames of an animation are mostly replaced before they were sent."""
_HEARTBEAT_EVERY_S: Final = 1.0
_BEGIN_S: Final = 0.3
"""Less than the time between two interrupts; a kernel that is free begins within a millisecond or a few."""
_LOST_IDLE_S: Final = 1.0
"""Silence of the whole kernel after the reply from which it follows that `idle` was lost: it stands behind whatever was said
before, by a thread of an earlier cell perhaps, and else comes within a millisecond."""
_SHOWN_S: Final = 0.8
"""So much of the time for which the outside waits is left for what is shown: kept text, of which 64 MiB take two seconds, is sent
no longer then."""
_BATCH_BYTES: Final = 64 * 1024
"""What is smaller goes out with what follows it; larger things are never held twice."""
_REFUSALS: Final = 3
"""Most refusals that a cell tells of."""
_REFUSALS_KEPT: Final = 1000
"""Most refusals that a cell remembers."""
_FAILURE_CHARS: Final = 64 * 1024
"""So much of what its failures say is looked through for what was refused."""
_REFUSED_PAGE: Final = "err_tunnel_connection_failed"
"""Chromium's word for a page that the way out has refused; if it was led there, the failure names where it began."""
_PIECES_CHARS: Final = 16 * 1024**2
"""After so much, no more pieces are sent: a cell that writes for an hour would send more than the outside takes of one
cell."""
_FAILURE_SHOWN: Final = 'interrupted by another navigation to "chrome-error://chromewebdata/"'
"""Playwright's words for a page that Chromium's own, about the failure before, came in the way of."""
_SENT_BYTES: Final = 64 * 1024**2
"""After so much, outputs are held back until the end: a cell that shows pictures without end sends them once."""


class RunningCell:
    """One posted cell.

    Args:
        request: What was posted.
        outputs: Where its outputs gather; late ones of earlier cells may be in it already.
        clock: Time.
    """

    def __init__(self, request: Execute, outputs: Outputs, clock: Clock) -> None:
        self.request = request
        self.outputs = outputs
        self.ladder = Ladder(request.deadline_s, clock)
        self.message_id: str | None = None
        """Names it to the kernel; None until it was sent."""
        self.reply_status: str | None = None
        self.failure: tuple[str, str] | None = None
        """The last error's name and message."""
        self.ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._refusals: dict[str, str | None] = {}
        self._refused_pages: list[str] = []
        self._failures = ""
        self._begun = asyncio.Event()
        self._idle = False
        self._messages = 0
        self._last_word: str | None = None
        self._questions: list[Event] = []
        self._asked_people = 0
        self._held = 0
        self._closed: ClosedEvent | None = None
        self._over = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """True once the kernel has said anything of it."""
        return self._begun.is_set()

    def take_reply(self, message: dict[str, Any]) -> None:
        """Take the kernel's reply."""
        self.reply_status = str(message["content"].get("status"))
        self.ladder.has_stopped = True
        if not self._idle:
            self._expect_idle(-1)
        self._look()

    def take_message(self, message: dict[str, Any]) -> None:
        """Take what the kernel published of this cell."""
        self._begun.set()
        if message["header"].get("msg_type") == "status":
            self._idle = self._idle or message["content"].get("execution_state") == "idle"
            self._look()
        else:
            if message["header"].get("msg_type") == "error":
                name, value = (str(message["content"].get(part)) for part in ("ename", "evalue"))
                self.failure = name, value
                self._failures = f"{self._failures}{value}"[:_FAILURE_CHARS]
            self.outputs.add(message)

    def hear(self) -> None:
        """Note that its kernel has published anything, of whichever cell."""
        self._messages += 1

    def ask(self, question: SecretAskedEvent) -> bool:
        """Have the outside asked for a secret."""
        self._questions.append(question)
        return True

    def ask_person(self, question: PersonAskedEvent) -> str | None:
        """Have the outside ask a person, and hold the deadline until `asks_no_longer`; or return why not, as a sentence."""
        if self.ladder.is_climbed:
            return "This cell is being ended, so nobody was asked."
        self._asked_people += 1
        if self._asked_people > QUESTIONS:
            return f"One cell may ask a person {QUESTIONS} times. Nobody was asked this time. Ask for several things at once."
        self.ladder.hold()
        self._questions.append(question)
        return None

    def asks_no_longer(self, number: int, *, was_answered: bool) -> None:
        """Let the deadline run on: a person has answered, or nobody in here waits for it any more."""
        self.ladder.release()
        if not was_answered:
            self._questions.append(QuestionDroppedEvent(number=number))

    def hold(self, *, is_held: bool) -> bool:
        """Have the deadline not run, until the outside has let go of it as often; False when it does not hold it."""
        if is_held:
            self._held += 1
            self.ladder.hold()
        elif self._held:
            self._held -= 1
            self.ladder.release()
        else:
            return False
        return True

    def end(self, end: End) -> None:
        """Say how it ended; the first word counts."""
        if not self.ended.done():
            self.ended.set_result(end)

    def note_end(self, sentence: str) -> None:
        """Tell how it was ended, and what is left."""
        self._last_word = sentence
        self.outputs.note(sentence)

    def begin_again(self) -> None:
        """Forget an end that came before the kernel had begun it."""
        self.message_id = None
        self.ended = asyncio.get_running_loop().create_future()

    def refused(self, sentence: str, host: str | None) -> None:
        """Have it say at its end what the way out refused while it ran, if it fails.

        Args:
            sentence: What was refused, and why.
            host: What a browser asked for. It asks for some by itself, so that is told only if the cell fails of a page; of
                several, those that the failure names.
        """
        if len(self._refusals) < _REFUSALS_KEPT:
            self._refusals[sentence] = host

    def refused_page(self, sentence: str) -> None:
        """Have it say at its end, however it ends, that the browser shows a refusal in a page's place.

        Args:
            sentence: What was refused, and why.
        """
        if len(self._refused_pages) < _REFUSALS and sentence not in self._refused_pages:
            self._refused_pages.append(sentence)

    async def soon_begun(self) -> None:
        """Wait a little until the kernel has begun it: an interrupt that comes before hits nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BEGIN_S):
                await self.unless_ended(self._begun.wait())

    async def unless_ended(self, work: Coroutine[Any, Any, Any]) -> None:
        """Wait for something that the cell needs, and give it up when the cell ends before."""
        doing = asyncio.ensure_future(work)
        try:
            await asyncio.wait({doing, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            doing.cancel()

    def close(self, status: CellStatus, generation: int, *, screen_changed: bool = True) -> None:
        """Nothing more comes."""
        refusals = self._refusals_to_tell() if status == "error" else []
        for sentence in refusals:
            self.outputs.note(sentence)
        for sentence in self._refused_pages:
            if sentence not in refusals:
                self.outputs.note(sentences.page_refused(sentence))
        if status == "error" and _FAILURE_SHOWN in self._failures:
            self.outputs.note(sentences.failed_page_came_late(self.request.language))
        self._closed = ClosedEvent(
            status=status,
            truncated=self.outputs.truncated,
            rung=self.ladder.rung,
            kernel_generation=generation,
            screen_changed=screen_changed,
            last_word=self._last_word,
        )
        self._over.set()

    @property
    def is_over(self) -> bool:
        """True once it is closed."""
        return self._over.is_set()

    async def over(self) -> None:
        """Wait until it is closed."""
        await self._over.wait()

    async def events(self) -> AsyncIterator[list[Event]]:
        """Yield events in batches as they come; the last one closes the cell. To be read once."""
        loop = asyncio.get_running_loop()
        outputs_at = beat_at = loop.time()
        sent_bytes = piece_chars = 0
        while not await self._is_over_within(_PIECES_EVERY_S):
            pieces = [*self.outputs.take_pieces()]
            piece_chars += sum(len(piece.text) for piece in pieces)
            batch: list[Event] = [*pieces] if piece_chars <= _PIECES_CHARS else []
            now = loop.time()
            if now - outputs_at >= _OUTPUTS_EVERY_S and sent_bytes < _SENT_BYTES:
                outputs_at = now
                for event in self.outputs.take():
                    sent_bytes += _weight(event)
                    batch.append(event)
            if now - beat_at >= _HEARTBEAT_EVERY_S:
                beat_at = now
                batch.append(HeartbeatEvent())
            questions, self._questions = self._questions, []
            batch += questions
            if batch:
                yield batch
        batch, weight = [], 0
        waited_s = self.request.waited_s
        for event in self.outputs.close():
            if event.type == "kept" and waited_s is not None and self.ladder.past_s > waited_s - _SHOWN_S:
                continue  # it is counted, and what is shown of it stays
            batch.append(event)
            weight += _weight(event)
            if weight > _BATCH_BYTES:
                yield batch
                batch, weight = [], 0
        assert self._closed is not None  # noqa: S101 - for the type checker; it is over
        yield [*batch, self._closed.model_copy(update={"truncated": self.outputs.truncated})]

    def _refusals_to_tell(self) -> list[str]:
        failures = self._failures.lower()
        news = {
            sentence: host
            for sentence, host in self._refusals.items()
            if sentence.removesuffix(".").lower() not in failures
        }
        by_code = [sentence for sentence, host in news.items() if host is None]
        pages = {sentence: host for sentence, host in news.items() if host is not None}
        named = [sentence for sentence, host in pages.items() if host.lower() in failures]
        if _REFUSED_PAGE in failures:
            named = named or [*pages]
        return [*by_code, *named][:_REFUSALS]

    async def _is_over_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _look(self) -> None:
        if self._idle and self.reply_status is not None:
            self.end("finished")

    def _expect_idle(self, messages: int) -> None:
        """End the cell when nothing has come from its kernel for a while after the reply."""
        if self.ended.done():
            return
        if messages == self._messages:
            self.end("finished")
            return
        asyncio.get_running_loop().call_later(_LOST_IDLE_S, self._expect_idle, self._messages)


def so_far_events(cell: RunningCell | None) -> list[Event]:
    """Return what a running cell has shown by now as if it were a cell's stream, closed as `running`; None: as `ok`."""
    if cell is None:
        return [ClosedEvent(status="ok")]
    return [*cell.outputs.so_far(), ClosedEvent(status="running", truncated=cell.outputs.truncated)]


def _weight(event: Event) -> int:
    match event:
        case _ if event.type == "output" and event.output.type == "image":
            return 4 * len(event.output.data) // 3
        case _ if event.type == "output" and event.output.type == "text":
            return len(event.output.text)
        case _ if event.type == "kept":
            return len(event.text)
        case _:
            return 0
