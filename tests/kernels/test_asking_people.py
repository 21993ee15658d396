"""Cells of real kernels that ask a person: the deadline does not run meanwhile, and every end of the cell ends its question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from tests.hosts import Host, running
from tests.waiting import GUARD_S

from cellwright_kernel.wire import EVENT, ClosedEvent, Event, Execute, HeartbeatEvent, Language, gather, in_order
from cellwright_kernel.wire_people import PersonAnswer, PersonAskedEvent, QuestionDroppedEvent

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ASKS: dict[Language, str] = {
    "python": "log(ask_user('Which?'))",
    "javascript": "console.log(await ask_user('Which?'))",
}
BOTH = pytest.mark.parametrize("language", ASKS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    async with running(tmp_path_factory.mktemp("asking")) as host:
        assert (await host.ready()).ready
        yield host


class Asked:
    """A cell that is executed while its questions are heard."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.events: list[Event] = []
        self.texts: list[str] = []

    async def answer(self, number: int, text: str) -> int:
        said = PersonAnswer(text=text).model_dump_json()
        return (await self.host.client.post(f"/questions/{number}", content=said)).status_code

    async def execute(
        self, code: str, language: Language, on_event: Callable[[Event], object], deadline_s: float = 20.0
    ) -> str:
        self.host.number += 1
        request = Execute(number=self.host.number, language=language, code=code, deadline_s=deadline_s)
        outputs = {}  # type: ignore[var-annotated]
        async with (
            asyncio.timeout(GUARD_S),
            asyncio.TaskGroup() as group,
            self.host.client.stream("POST", "/cells", content=request.model_dump_json()) as response,
        ):
            async for line in response.aiter_lines():
                event = EVENT.validate_json(line)
                self.events.append(event)
                gather(outputs, event)
                doing = on_event(event)
                if asyncio.iscoroutine(doing):
                    group.create_task(doing)
        self.texts = [output.text for output in in_order(outputs) if output.type == "text"]
        assert isinstance(event, ClosedEvent)
        return event.status


@BOTH
async def test_the_deadline_does_not_run_while_a_person_thinks_and_heartbeats_go_on(
    host: Host, language: Language
) -> None:
    """The answer comes after three heartbeats, which is three seconds; the cell has one and a half."""
    asked = Asked(host)
    beats: list[Event] = []
    number: list[int] = []

    def hear(event: Event) -> object:
        if isinstance(event, PersonAskedEvent):
            number.append(event.number)
        if isinstance(event, HeartbeatEvent) and number:
            beats.append(event)
            return asked.answer(number[0], "blue") if len(beats) == 3 else None
        return None

    assert await asked.execute(ASKS[language], language, hear, deadline_s=1.5) == "ok"
    assert asked.texts == ["blue"]


@BOTH
async def test_after_the_answer_the_deadline_runs_on(host: Host, language: Language) -> None:
    asked = Asked(host)
    endless = {"python": "\nwhile True: pass", "javascript": "\nwhile (true);"}[language]

    def hear(event: Event) -> object:
        return asked.answer(event.number, "blue") if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(ASKS[language] + endless, language, hear, deadline_s=0.5) == "timeout"
    assert asked.texts[0].strip() == "blue"


@BOTH
async def test_an_interrupt_ends_a_cell_that_asks_and_keeps_its_variables(host: Host, language: Language) -> None:
    asked = Asked(host)
    mark = {"python": "mark = 6\n", "javascript": "globalThis.mark = 6;\n"}[language]

    def hear(event: Event) -> object:
        return host.client.post(f"/kernels/{language}/interrupt") if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(mark + ASKS[language], language, hear) == "interrupted"
    (number,) = [event.number for event in asked.events if isinstance(event, PersonAskedEvent)]
    assert await asked.answer(number, "too late") == 404
    after = {"python": "log(mark)", "javascript": "console.log(mark)"}[language]
    assert await asked.execute(after, language, lambda _: None) == "ok"
    assert asked.texts == ["6"]


@BOTH
async def test_a_kernel_that_dies_while_it_asks_ends_its_question(host: Host, language: Language) -> None:
    asked = Asked(host)
    dies = {
        "python": "import os, signal, threading\nthreading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()\n",
        "javascript": "setTimeout(() => process.kill(process.pid, 'SIGKILL'), 300);\n",
    }[language]
    assert await asked.execute(dies + ASKS[language], language, lambda _: None) == "kernel_died"
    (number,) = [event.number for event in asked.events if isinstance(event, PersonAskedEvent)]
    assert await asked.answer(number, "too late") == 404
    assert (await host.execute("1", language=language))[0] == "ok"


async def test_threads_ask_at_the_same_time_and_each_has_its_own_answer(host: Host) -> None:
    asked = Asked(host)
    code = "import asyncio\nlog(await asyncio.gather(*(asyncio.to_thread(ask_user, f'q{i}') for i in range(4))))"

    def hear(event: Event) -> object:
        return asked.answer(event.number, event.question * 2) if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(code, "python", hear) == "ok"
    assert asked.texts == ["['q0q0', 'q1q1', 'q2q2', 'q3q3']"]


async def test_promises_ask_at_the_same_time_and_each_has_its_own_answer(host: Host) -> None:
    asked = Asked(host)
    code = "console.log((await Promise.all(['a', 'b', 'c'].map(ask_user))).join())"

    def hear(event: Event) -> object:
        return asked.answer(event.number, event.question * 2) if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(code, "javascript", hear) == "ok"
    assert asked.texts == ["aa,bb,cc"]


async def test_code_that_catches_its_interrupt_drops_the_question_and_is_ended_by_the_ladder(host: Host) -> None:
    asked = Asked(host)
    code = (
        "import time\n"
        "try: ask_user('Which?')\n"
        "except KeyboardInterrupt: pass\n"
        "try: ask_user('And now?')\n"
        "except Exception as error: log(error)\n"
        "time.sleep(60)"
    )

    def hear(event: Event) -> object:
        return host.client.post("/kernels/python/interrupt") if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(code, "python", hear) == "interrupted"
    assert asked.texts[0] == "This cell is being ended, so nobody was asked."
    assert any(isinstance(event, QuestionDroppedEvent) for event in asked.events)


async def test_a_question_that_is_too_long_is_an_error_of_the_code(host: Host) -> None:
    status, outputs = await host.execute("ask_user('q' * 10_000)")
    assert status == "error"
    assert "The question has 10,000 characters, and may have 2,000." in outputs[0].text  # type: ignore[union-attr]
    status, outputs = await host.execute("await ask_user('q'.repeat(10_000))", language="javascript")
    assert status == "error"
    assert "The question has 10,000 characters, and may have 2,000." in outputs[0].text  # type: ignore[union-attr]
    status, outputs = await host.execute("await ask_user(7)", language="javascript")
    assert "A question is a string, not number. Nobody was asked." in outputs[0].text  # type: ignore[union-attr]


async def test_answers_to_numbers_that_nobody_asked_under_are_refused(host: Host) -> None:
    asked = Asked(host)
    assert [await asked.answer(number, "x") for number in (0, 1, 99_999)] == [404, 404, 404]
    assert (await host.client.post("/questions/1", content=b"[]")).status_code == 400
    assert (await host.client.post("/questions/1", content=b'{"text":"' + b"x" * 20_001 + b'"}')).status_code == 400


async def test_code_asks_without_an_end_and_is_refused_after_twenty(host: Host) -> None:
    asked = Asked(host)
    code = (
        "refused = 0\n"
        "for _ in range(1000):\n"
        "    try: ask_user('?')\n"
        "    except Exception as error: refused += 1\n"
        "log(refused)"
    )

    def hear(event: Event) -> object:
        return asked.answer(event.number, "y") if isinstance(event, PersonAskedEvent) else None

    assert await asked.execute(code, "python", hear) == "ok"
    assert asked.texts == ["980"]


async def test_the_outside_holds_the_deadline_of_the_cell_that_runs_and_of_no_other(host: Host) -> None:
    """The cell has half a second, and is held twice: for one heartbeat and for two, which is two seconds."""
    asked, beats = Asked(host), []  # type: ignore[var-annotated]
    said: list[bool] = []

    async def say(word: str, cell: int) -> None:
        response = await host.client.post(f"/cells/running/{word}", params={"cell": str(cell)})
        said.append(response.json()["held"])

    async def begin(number: int) -> None:
        await say("hold", number + 1)
        await say("hold", number)
        await say("hold", number)

    def hear(event: Event) -> object:
        if isinstance(event, HeartbeatEvent):
            beats.append(event)
            return say("release", host.number) if len(beats) <= 2 else None
        return begin(host.number) if event.type == "piece" else None

    code = "import time\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)"
    assert await asked.execute(code, "python", hear, deadline_s=0.5) == "timeout"
    assert len(beats) >= 2
    assert said == [False, True, True, True, True]
    assert (await host.client.post("/cells/running/stop", params={"cell": "1"})).status_code == 404
    assert (await host.client.post("/cells/running/hold")).status_code == 404
