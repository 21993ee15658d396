"""Which turn of a script answers a request, and what goes wrong with it this time.

Flows in: a request that was taken. Flows out: an `Answer`, or a `Refused`. Decided here: that what goes wrong is counted for one
conversation and one turn; that an expectation which is not met refuses the request, so that a scripted model can look at what came
back; and that it is held against what came before a fault of its turn, never against the answers to a call of that fault.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from cellwright.counted import counted
from cellwright.emulator.faults import Cut, Effect, OddBody, OddEvents, OddOutput, PlannedFault, Refusal, Slow
from cellwright.emulator.ids import Place, is_of_fault, new_key, place_of
from cellwright.emulator.outputs import faulty, within_limit
from cellwright.emulator.playing import Json, has_image, has_reasoning, response_for, texts_of
from cellwright.emulator.protocol import Conversation
from cellwright.emulator.refusing import Refused
from cellwright.emulator.script import Script, ScriptedTurn
from cellwright.emulator.usage import PromptCache

_SHOWN_CHARS: Final = 2000
_COUNTED: Final = 100_000
"""Places of which is kept what went wrong there; all are forgotten beyond."""


@dataclass(frozen=True)
class Due:
    """What is due."""

    turn: ScriptedTurn
    number: int | None
    """From 1; absent: the one that wraps up."""
    place: Place


@dataclass(frozen=True)
class Answer:
    """What is answered."""

    response: Json
    turns: int
    """How far the script has come with it."""
    fault: PlannedFault | None = None

    @property
    def effect(self) -> Cut | OddBody | Slow | OddEvents | None:
        """What goes wrong on the wire."""
        effect = self.fault.fault.effect if self.fault is not None else None
        return effect if isinstance(effect, Cut | OddBody | Slow | OddEvents) else None


class Playing:
    """One script, and what went wrong so far where it is played."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._happened: Counter[tuple[int | None, str, int]] = Counter()
        self._cache = PromptCache()

    def due(self, asked: Conversation) -> Due:
        """Return the turn that a request asks for; raises Refused when there is none."""
        place = place_of(asked.history, self.script.places)
        place = Place(max(place.turns, asked.turns_before), place.conversation)
        if not asked.may_call:
            return Due(self.script.wrap_up, None, place)
        number = place.turns + 1
        if number > len(self.script.turns):
            raise Refused(
                f"{self.script.name} has {counted(len(self.script.turns), 'turn')}, and turn {number} was asked for.",
                code="script_is_over",
            )
        turn = self.script.turns[number - 1]
        offered = {tool.name for tool in asked.tools}
        for call in turn.calls:
            if call.name in ("exec_py", "exec_js") and call.name not in offered:
                raise Refused(
                    f"Turn {number} of {self.script.name} calls {call.name}, which is not offered.",
                    code="script_calls_what_is_not_offered",
                )
        return Due(turn, number, place)

    def answer(self, due: Due, asked: Conversation) -> Answer:
        """Return what is answered; raises Refused, `http:` and faults of that kind among the reasons."""
        _check_expectations(due, asked)
        self._refuse_at_first(due)
        cached = self._cache.take(asked.model, asked.head, asked.rendered)
        for index, plan in enumerate(due.turn.faults):
            spot = (due.number, due.place.conversation, index)
            if plan.times is not None and self._happened[spot] >= plan.times:
                continue
            answer = self._faulty(plan, due, asked, cached)
            if isinstance(answer, Answer):
                self._count(spot)
                return answer
            if answer is not None:
                self._count(spot)
                raise answer
        return self._as_written(due, asked, cached, None)

    def _as_written(self, due: Due, asked: Conversation, cached: int, plan: PlannedFault | None) -> Answer:
        turns = due.place.turns if due.number is None else due.number
        key = new_key(turns, is_fault=False, has_reasoning=has_reasoning(due.turn))
        return Answer(within_limit(response_for(due.turn, key, asked, cached), key, asked.most_output), turns, plan)

    def _faulty(self, plan: PlannedFault, due: Due, asked: Conversation, cached: int) -> Answer | Refused | None:
        """Return what comes of a fault; None where it does not apply."""
        fault = plan.fault
        if fault.applies == ("whole" if asked.streams else "streamed"):
            return None
        match fault.effect:
            case Refusal() as refusal:
                return _refused(refusal, plan.name) if _meets(refusal, asked) else None
            case OddOutput(is_turn=True):
                answer = self._as_written(due, asked, cached, plan)
                response = faulty(plan.name, answer.response, "", asked)
                return None if response is None else Answer(response, answer.turns, plan)
            case OddOutput():
                turns = due.place.turns
                key = new_key(turns, is_fault=True, has_reasoning=has_reasoning(due.turn))
                response = faulty(plan.name, response_for(due.turn, key, asked, cached), key, asked)
                return None if response is None else Answer(response, turns, plan)
            case _:
                return self._as_written(due, asked, cached, plan)

    def _refuse_at_first(self, due: Due) -> None:
        spot = (due.number, due.place.conversation, -1)
        if due.turn.http_status is not None and self._happened[spot] < due.turn.http_times:
            self._count(spot)
            # the wait is for clients that retry: a test must not sit out their back-off
            raise Refused(
                "The script says so.",
                status=due.turn.http_status,
                code="script",
                headers={"retry-after-ms": "1"},
            )

    def _count(self, spot: tuple[int | None, str, int]) -> None:
        if len(self._happened) >= _COUNTED:
            self._happened.clear()
        self._happened[spot] += 1


def is_forgetful(effect: Effect | None) -> bool:
    """Return whether the response that the request goes on from is gone for good."""
    return isinstance(effect, Refusal) and effect.when == "chained"


def _meets(refusal: Refusal, asked: Conversation) -> bool:
    match refusal.when:
        case "always":
            return True
        case "images":
            return asked.has_tool_images
        case "custom_tools":
            return any(tool.is_custom for tool in asked.tools)
        case "chained":
            return asked.previous is not None


def _refused(refusal: Refusal, name: str) -> Refused:
    return Refused(
        refusal.message,
        status=refusal.status,
        code=refusal.code,
        kind=refusal.kind,
        headers=refusal.headers,
        fault=name,
    )


def _check_expectations(due: Due, asked: Conversation) -> None:
    if any(is_of_fault(str(item.get("call_id"))) for item in asked.answers):
        return  # they were held against the answers before the fault; none to a call that it made is what the script waits for
    turn, text = due.turn, texts_of(asked.answers)
    wrong = [f"expected {word!r}" for word in turn.expects if word not in text]
    wrong += [f"did not expect {word!r}" for word in turn.expects_not if word in text]
    if turn.expects_image and not has_image(asked.answers):
        wrong.append("expected an image")
    if wrong:
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        raise Refused(
            f"Turn {'that wraps up' if due.number is None else due.number} of the script {' and '.join(wrong)} in the "
            f"answers. They say: {shown}",
            code="script_expectation_failed",
        )
