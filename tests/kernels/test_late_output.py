"""What a cell says when it and all later ones have ended, with the real kernels: the host gives it out, once."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.hosts import Host, running
from tests.waiting import GUARD_S

from cellwright_kernel.wire import ClosedEvent, KeptEvent, Output, Text, gather

pytestmark = pytest.mark.slow


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with running(tmp_path) as host:
        assert (await host.ready()).ready
        yield host


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import threading\nthreading.Timer(0.2, print, ['late']).start()"),
        ("javascript", "setTimeout(() => process.stdout.write('late\\n'), 200); undefined"),
    ],
)
async def test_what_comes_after_the_last_cell_can_be_had_once(host, language, code):
    await host.execute("'a cell before'")
    await host.execute(code, language=language)
    texts: list[Text] = []
    async with asyncio.timeout(GUARD_S):
        while not texts:
            *events, closed = await host.late()
            assert closed == ClosedEvent(status="ok")
            texts = [event.output for event in events]
    assert texts == [Text(text="late\n", source="stdout", of_cell=2)]
    assert await host.late() == [ClosedEvent(status="ok")]
    assert await host.texts("print('next')") == ["next\n"]


async def test_what_both_languages_say_after_their_last_cells_is_told_apart(host):
    await host.execute("setTimeout(() => console.log('later'), 50); undefined", language="javascript")
    await host.execute("import threading; threading.Timer(0.05, print, ['y' * 20_000]).start()")
    late: dict[int, str] = {}
    async with asyncio.timeout(GUARD_S):
        while sorted(late) != [1, 2]:
            outputs: dict[int, Output] = {}
            kept: defaultdict[int, str] = defaultdict(str)
            for event in await host.late():
                gather(outputs, event)
                if isinstance(event, KeptEvent):
                    kept[event.number] += event.text
            late |= {output.of_cell: kept.get(number, output.text) for number, output in outputs.items()}
    assert late == {1: "later", 2: "y" * 20_000 + "\n"}
