"""What a model and its run have said to each other, read back from the record so that it can go on.

Flows in: a run. Flows out: the history as the model knows it, and the calls of its last response with the answers that are
there. Decided here: which response is one to go on from; that what was lost of a cell is answered with what is known of it;
and that a response which only summed up, or which nothing was done with, is left out, so that the model is asked once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from cellwright.answer import InputItem, answer, said
from cellwright.endings import Refused, ResponseUnusable, RunEnded
from cellwright.model.base import Call, Item, Response, Usage, item_from
from cellwright.record import Run, StoredCell
from cellwright.record.records import CellOpened, CellRebuilt, ModelRequest, ModelResponse, Note
from cellwright.record.stored import restored
from cellwright_kernel.wire import Cell

RESUMED: Final = "resumed"
"""Topic of a note that the model was told as it stands, in a message of its own."""
CALL: Final = "call"
"""Topic of a note that is the answer to a call which was not executed."""

TASK: Final = "task"
"""Topic of a note with the task that a conversation began with, where the run has another one since."""

_UNUSABLE: Final = {
    "max_output_tokens": "The response was cut off at its limit of tokens",
    "content_filter": "The response was stopped by the server's content filter",
}


@dataclass(frozen=True)
class Conversation:
    """How far a model has come with its task."""

    history: tuple[Item, ...]
    """Up to its last response, with it."""
    turns: int = 0
    """Number of the last response that there was, usable or not."""
    calls: tuple[Call, ...] = ()
    """What the last response calls for; those that are answered among them."""
    answers: Mapping[str, Item] = field(default_factory=dict)
    """Answers to them that are there, by the call's id."""
    after: tuple[Item, ...] = ()
    """What the model is told once all are answered."""
    last_words: str | None = None
    """With which it has finished its task; absent when it has not."""
    instructions: str | None = None
    """With which it was asked; absent when it never was, or no server of the API was."""
    may_execute: bool = True
    """Whether a call that nothing was done about is executed now; else it is answered that it was not."""


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


def check_ids(calls: Sequence[Call]) -> None:
    """Refuse calls that cannot be answered one by one."""
    ids = [call.call_id for call in calls]
    if not all(ids) or len(set(ids)) != len(ids):
        raise ResponseUnusable("The calls of a response have no ids of their own, so they cannot be answered.")


def last_words_of(response: Response) -> str | None:
    """Return with what a response finishes: messages that are more than commentary; None when it does not."""
    last_words = [message.text for message in response.messages if message.phase != "commentary"]
    return "\n".join(last_words) if last_words and not response.calls else None


def answer_item(call: Call, items: Sequence[InputItem]) -> Item:
    """Return the answer to a call, as the API has it. Of a custom tool, too: the model's adapter sends it as that tool's."""
    return {"type": "function_call_output", "call_id": call.call_id, "output": cast("list[JsonValue]", list(items))}


def user_item(text: str) -> Item:
    """Return a message to the model, as the API has it."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said(text)["text"]}]}


class _Reading:
    """One run, read from its beginning to its end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._cells = {cell.opened.number: cell for cell in run.stored_cells}
        self._history: list[Item] = [] if run.info.task is None else [user_item(run.info.task)]
        self._last: Response | None = None
        self._turns = 0
        self._numbers: dict[str, int] = {}
        """Of the cells that the last response called for, by the call's id."""
        self._refused: dict[str, str] = {}
        self._rebuilt: dict[int, CellRebuilt] = {}
        """Cells without an end of their own, executed again since the last response."""
        self._after: list[Item] = []
        self._instructions: str | None = None
        self._sums_up = False

    def conversation(self) -> Conversation:
        for record in self._run.records:
            match record:
                case ModelRequest(parameters=parameters):
                    # a server that knows no `tool_choice` is sent no tools instead
                    self._sums_up = parameters.get("tool_choice") == "none" or parameters.get("tools") == []
                    said_then = parameters.get("instructions")
                    self._instructions = said_then if isinstance(said_then, str) else None
                case ModelResponse(turn=turn, response=raw):
                    self._turns = turn
                    if not self._sums_up:
                        self._respond(raw)
                case CellOpened(call_id=str(call_id), number=number):
                    self._numbers[call_id] = number
                case CellRebuilt(number=number) if record.status is not None:
                    self._rebuilt[number] = record
                case Note(topic="call", call_id=str(call_id), text=text):
                    self._refused[call_id] = text
                case Note(topic="call", text=text):  # of runs that were written before such notes had the id
                    call_id, _, reason = text.partition(": ")
                    self._refused[call_id] = reason
                case Note(topic="task", text=text):
                    self._history = [user_item(text)]
                case Note(topic="resumed", text=text):
                    self._after.append(user_item(text))
                case _:
                    pass
        calls = self._last.calls if self._last else ()
        return Conversation(
            history=tuple(self._history),
            turns=self._turns,
            calls=calls,
            answers=dict(self._answers(calls)),
            after=tuple(self._after),
            last_words=last_words_of(self._last) if self._last else None,
            instructions=self._instructions,
        )

    def _respond(self, raw: JsonValue) -> None:
        response = _response_from(raw)
        try:
            check_usable(response)
            check_ids(response.calls)
        except RunEnded:
            return
        self._history.extend(item for _, item in self._answers(self._last.calls if self._last else ()))
        self._history.extend(self._after)
        self._history.extend(item.raw for item in response.items)
        self._last, self._after = response, []
        self._numbers, self._refused, self._rebuilt = {}, {}, {}

    def _answers(self, calls: Sequence[Call]) -> Iterator[tuple[str, Item]]:
        for call in calls:
            if call.call_id in self._numbers:
                yield call.call_id, answer_item(call, self._of_cell(self._cells[self._numbers[call.call_id]]))
            elif call.call_id in self._refused:
                yield call.call_id, answer_item(call, [said(self._refused[call.call_id])])

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


def _response_from(raw: JsonValue) -> Response:
    body = raw if isinstance(raw, dict) else {}
    output = body.get("output")
    items = tuple(item_from(item) for item in (output if isinstance(output, list) else []) if isinstance(item, dict))
    return Response(str(body.get("id")), str(body.get("status") or "completed"), items, Usage(), raw=raw)
