"""What a model and its run have said to each other, read back from the record so that it can go on.

Flows in: a run. Flows out: the history as the model knows it, and the calls of its last response with the answers that are
there. Decided here: which response is one to go on from; that what was lost of a cell is answered with what is known of it;
that a response which nothing was done with is left out, so that the model is asked once more; that one which only summed up does not
finish the task; and that what was left out of the history is left out again by the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never, cast

from pydantic import JsonValue

from cellwright.answer import InputItem, answer, said
from cellwright.endings import Refused, ResponseUnusable, RunEnded
from cellwright.history import Answer, History, user_item
from cellwright.model.base import Call, Item, Response, Usage, as_offered, item_from
from cellwright.record import Run, StoredCell
from cellwright.record.records import (
    CellOpened,
    CellRebuilt,
    HistoryShortened,
    ModelRequest,
    ModelResponse,
    Note,
    PersonAnswered,
    Record,
    RunClosed,
    TermsSet,
)
from cellwright.record.stored import digest_of, restored
from cellwright_kernel.wire import Cell

RESUMED: Final = "resumed"
"""Topic of the note that says what became of a run that was taken up again."""
BUDGET: Final = "budget"
"""Topic of a note on how much of the budget is left."""
WRAP_UP: Final = "wrap_up"
"""Topic of the note that asks for a summary, since the budget is spent."""
STUCK: Final = "stuck"
"""Topic of a note that says that it gets nowhere."""
STEERED: Final = "steered"
"""Topic of a note with what a person said meanwhile."""
SENT_BACK: Final = "sent_back"
"""Topic of a note that says why a final answer is not taken."""
TOLD: Final = frozenset({RESUMED, BUDGET, WRAP_UP, STUCK, STEERED, SENT_BACK})
"""Topics of notes that the model was told as they stand, each in a message of its own that went with the next request."""
RESULT: Final = "result"
"""Topic of a note with the result, as JSON; the model is not told."""
CALL: Final = "call"
"""Topic of a note that is the answer to a call which was not executed."""
PRICE: Final = "price"
"""Topic of a note on what the model's tokens are taken to cost; the model is not told."""
TASK: Final = "task"
"""Topic of a note with the task that a conversation began with, where the run has another one since."""

_AFTER_THE_END: Final = "Not executed: the budget was spent, and only a summary was asked for."
_UNUSABLE: Final = {
    "max_output_tokens": "The response was cut off at its limit of tokens",
    "content_filter": "The response was stopped by the server's content filter",
}


@dataclass(frozen=True)
class Conversation:
    """How far a model has come with its task."""

    history: History
    """Up to its last response, with it."""
    turns: int = 0
    """Number of the last response that there was, usable or not."""
    calls: tuple[Call, ...] = ()
    """What the last response calls for; those that are answered among them."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Answers to them that are there, by the call's id."""
    after: tuple[Item, ...] = ()
    """What the model is told once all are answered."""
    last_words: str | None = None
    """With which it has finished its task; absent when it has not."""
    instructions: str | None = None
    """With which it was asked; absent when it never was, or no server of the API was."""
    may_execute: bool = True
    """Whether a call that nothing was done about is executed now; else it is answered that it was not."""
    sent_back: int = 0
    """How many of its final answers were not taken since the run last began, or was resumed after an end."""
    authors: Mapping[str, str] = field(default_factory=dict)
    """Which model made a reasoning item, by the item's id."""
    terms: TermsSet | None = None
    """On what terms the model last drove; absent: on the usual ones."""
    was_steered: bool = False
    """Whether a person has said something since the last response: what it calls for and was not begun is not begun any more."""

    @property
    def sent(self) -> History:
        """What would be sent next, if it has every answer."""
        history = self.history.copy()
        for call in self.calls:
            if call.call_id in self.answers:
                history.answer(self.answers[call.call_id])
        history.say(*self.after)
        return history


def conversation_of(run: Run) -> Conversation:
    """Return the conversation of a run that a model drove, of which every cell has an end.

    Raises:
        JournalCorrupt: What a cell gave is not there as it was written.
    """
    return _Reading(run).conversation()


def check_usable(response: Response) -> None:
    """Nothing of a response that is not whole is executed: its code may be half written."""
    if response.status != "completed":
        why = _UNUSABLE.get(response.reason or "", f"The response ended as {response.status}")
        detail = f" ({response.reason})" if response.reason else ""
        raise ResponseUnusable(f"{why}{detail}. Nothing of it was executed.")
    refusals = [message.refusal for message in response.messages if message.refusal is not None]
    if refusals:
        raise Refused(f"The model refused: {' '.join(refusals)}", summary="\n".join(refusals))
    kinds = {str(item.raw.get("type")) for item in response.items if not isinstance(item, Call)}
    foreign = sorted(kind for kind in kinds if kind.endswith("_call"))
    if foreign:
        raise ResponseUnusable(f"The model used a tool that was not offered: {', '.join(foreign)[:200]}.")


def check_ids(calls: Sequence[Call], history: Iterable[Item]) -> None:
    """Refuse calls that cannot be answered one by one: each needs an id, and none that a call of the history before it has."""
    ids = [call.call_id for call in calls]
    if not all(ids) or len(set(ids)) != len(ids):
        raise ResponseUnusable("The calls of a response have no ids of their own, so they cannot be answered.")
    before = {str(item["call_id"]) for item in history if item.get("call_id")}
    if taken := sorted(before.intersection(ids)):
        raise ResponseUnusable(
            f"A call of the response has the id of an earlier one ({taken[0][:80]}), which is answered already. Nothing of it was "
            "executed."
        )


def last_words_of(response: Response) -> str | None:
    """Return with what a response finishes: messages that are more than commentary; None when it does not."""
    last_words = [message.text for message in response.messages if message.phase != "commentary"]
    return "\n".join(last_words) if last_words and not response.calls else None


def answer_item(call: Call, items: Sequence[InputItem]) -> Item:
    """Return the answer to a call, as the API has it. Of a custom tool, too: the model's adapter sends it as that tool's."""
    return {"type": "function_call_output", "call_id": call.call_id, "output": cast("list[JsonValue]", list(items))}


class _Reading:
    """One run, read from its beginning to its end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cells = {cell.opened.number: cell for cell in run.stored_cells}
        self._history = History() if run.info.task is None else History(user_item(run.info.task))
        self._last: Response | None = None
        self._turns = 0
        self._model = ""
        """Which one was asked last."""
        self._authors: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        """Of the cells that the last response called for, by the call's id."""
        self._refused: dict[str, str] = {}
        self._rebuilt: dict[int, CellRebuilt] = {}
        """Cells without an end of their own, executed again since the last response."""
        self._after: list[Item] = []
        self._instructions: str | None = None
        self._custom_tools = True
        """Whether such were offered last; where the record does not say what was offered, a call of one counts as it came."""
        self._sums_up = False
        self._wrap_up: Item | None = None
        """What the model was told last when it was to wrap up; in runs of earlier versions nothing of it is recorded."""
        self._wraps_up = False
        """Whether the last request was to do so, and ended with that."""
        self._is_over = False
        """Whether the last response was such a summary."""
        self._is_apart = False
        """Whether the last request asked for a summary that the record has as such."""
        self._was_steered = False
        """Whether a person has said something since the last response: it has not finished then, whatever it said."""
        self._sent_back = 0
        self._terms: TermsSet | None = None

    def conversation(self) -> Conversation:
        for record in self._run.records:
            self._read(record)
        return self._read_back()

    def _read(self, record: Record) -> None:
        match record:
            case ModelRequest() | ModelResponse() | HistoryShortened() | TermsSet() | RunClosed():
                self._read_of_model(record)
            case _:
                self._read_of_cells(record)

    def _read_of_model(self, record: ModelRequest | ModelResponse | HistoryShortened | TermsSet | RunClosed) -> None:
        match record:
            case ModelRequest(parameters=parameters, purpose=purpose):
                self._model = record.model
                self._is_apart = purpose == "summary"
                # a server that knows no `tool_choice` is sent no tools instead
                self._sums_up = parameters.get("tool_choice") == "none" or parameters.get("tools") == []
                told = self._wrap_up is not None and record.input[-1:] == (digest_of(self._wrap_up),)
                self._wraps_up = self._sums_up and told
                said_then = parameters.get("instructions")
                if isinstance(tools := parameters.get("tools"), list) and tools:
                    self._custom_tools = any(isinstance(tool, dict) and tool.get("type") == "custom" for tool in tools)
                self._instructions = said_then if isinstance(said_then, str) else None
            case ModelResponse(turn=turn, response=raw):
                self._turns = turn
                if record.cut_off_at is None and not self._is_apart and (self._wraps_up or not self._sums_up):
                    self._respond(raw)
            case HistoryShortened():
                self._shorten(record)
            case TermsSet():
                self._terms = record
            case RunClosed():
                self._sent_back = 0
            case _:
                assert_never(record)

    def _read_of_cells(self, record: Record) -> None:
        """Read what came of the calls of the last response, and what the model was told since."""
        match record:
            case CellOpened(call_id=str(call_id), number=number):
                self._numbers[call_id] = number
            case CellRebuilt(number=number) if record.status is not None:
                self._rebuilt[number] = record
            case Note(topic="call", call_id=str(call_id), text=text):
                self._refused[call_id] = text
            case Note(topic="call", text=text):  # of runs that were written before such notes had the id
                call_id, _, reason = text.partition(": ")
                self._refused[call_id] = reason
            case PersonAnswered(call_id=str(call_id)):
                self._refused[call_id] = record.refused or "" if record.answer is None else record.answer
            case Note(topic="task", text=text):
                self._history = History(user_item(text))
            case Note(topic=str(topic), text=text) if topic in TOLD:
                self._told(topic, text)
            case _:
                pass

    def _read_back(self) -> Conversation:
        calls = self._last.calls if self._last else ()
        return Conversation(
            history=self._history,
            turns=self._turns,
            calls=calls,
            answers=dict(self._answers(calls)),
            after=tuple(self._after),
            last_words=self._last_words,
            instructions=self._instructions,
            sent_back=self._sent_back,
            authors=self._authors,
            terms=self._terms,
            was_steered=self._was_steered,
        )

    @property
    def _last_words(self) -> str | None:
        return None if self._last is None or self._is_over or self._was_steered else last_words_of(self._last)

    def _respond(self, raw: JsonValue) -> None:
        response = _response_from(raw, custom_tools=self._custom_tools)
        try:
            check_usable(response)
            check_ids(response.calls, self._history)
        except RunEnded:
            return
        self._settle()
        self._history.respond(item.raw for item in response.items)
        self._authors |= {str(item.raw.get("id")): self._model for item in response.items if item.type == "other"}
        self._last, self._is_over = response, self._sums_up
        if self._is_over:  # it was told so before it called
            self._refused = {call.call_id: _AFTER_THE_END for call in response.calls}

    def _settle(self) -> None:
        """Put into the history what came since the last response: its answers, and what the model was told."""
        for _, answered in self._answers(self._last.calls if self._last else ()):
            self._history.answer(answered)
        self._history.say(*self._after)
        self._last, self._after = None, []
        self._is_over = self._was_steered = False
        self._numbers, self._refused, self._rebuilt = {}, {}, {}

    def _told(self, topic: str, text: str) -> None:
        self._after.append(user_item(text))
        self._was_steered = self._was_steered or topic == STEERED
        self._wrap_up = self._after[-1] if topic == WRAP_UP else self._wrap_up
        if topic == SENT_BACK:  # it had not finished, then
            self._settle()
            self._sent_back += 1

    def _shorten(self, record: HistoryShortened) -> None:
        self._settle()
        if record.pictures_kept is not None:
            self._history.drop_pictures(record.pictures_kept)
        if record.summary is not None:
            self._history.sum_up(record.summary)

    def _answers(self, calls: Sequence[Call]) -> Iterator[tuple[str, Answer]]:
        for call in calls:
            number = self._numbers.get(call.call_id)
            if number is not None:
                yield call.call_id, Answer(answer_item(call, self._of_cell(self._cells[number])), number)
            elif call.call_id in self._refused:
                yield call.call_id, Answer(answer_item(call, [said(self._refused[call.call_id])]))

    def _of_cell(self, stored: StoredCell) -> list[InputItem]:
        cell = self._run.load(stored)
        again = self._rebuilt.get(cell.number)
        if again is None or not is_lost(stored):
            return answer(cell)
        outputs = tuple(restored(output, self._run.blobs.read) for output in again.outputs)
        rerun = Cell(
            number=cell.number,
            language=cell.language,
            code=cell.code,
            started_at=again.at,
            status=again.status or "ok",
            outputs=outputs,
        )
        return [*answer(cell), said("It was executed again in the new sandbox, and gave this:"), *answer(rerun)]


def is_lost(cell: StoredCell) -> bool:
    """Return whether a crash, of what is outside or of its sandbox, came before its end: how far it came is not known."""
    return cell.closed is None or cell.closed.status == "sandbox_lost"


def _response_from(raw: JsonValue, *, custom_tools: bool) -> Response:
    body = raw if isinstance(raw, dict) else {}
    output = body.get("output")
    came = [item_from(item) for item in (output if isinstance(output, list) else []) if isinstance(item, dict)]
    items = as_offered(came, custom_tools=custom_tools)
    return Response(str(body.get("id")), str(body.get("status") or "completed"), items, Usage(), raw=raw)
