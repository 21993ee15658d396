"""Interrupts that come at a cell's very beginning, with the real kernels: they hit it, and what is said of it is true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernels.playing_cells import kernels_in, play

from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SLEEPS: dict[Language, str] = {
    "python": "import time; print('begun'); time.sleep(20)",
    "javascript": "console.log('begun'); await new Promise(resolve => setTimeout(resolve, 20000))",
}
NOT_YET = "The code was not executed: the cell before it had been ended, and until this one had to end too, it was not known yet"
EARLY_S = (0, 0.0005, 0.001, 0.002, 0.004, 0.008)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kernels]:
    folder: Path = tmp_path_factory.mktemp("early")
    async with kernels_in(folder) as kernels:
        for language in SLEEPS:
            await kernels.start(language)
        yield kernels


@pytest.fixture(scope="module")
def numbers() -> AsyncIterator[int]:
    return iter(range(1, 1000))  # type: ignore[return-value]


@pytest.mark.parametrize("language", SLEEPS)
async def test_an_interrupt_before_the_cell_has_come_ends_that_cell_and_no_other(kernels, numbers, language):
    first, second = next(numbers), next(numbers)
    assert not kernels.interrupt(language, second)
    assert (await play(kernels, language, "1", first, 10))[1].status == "ok"
    began = time.monotonic()
    assert (await play(kernels, language, SLEEPS[language], second, 10))[1].status == "interrupted"
    assert time.monotonic() - began < 5
    assert not kernels.interrupt(language, second)  # it has ended
    assert (await play(kernels, language, "1", next(numbers), 10))[1].status == "ok"


@pytest.mark.parametrize("early_s", EARLY_S)
@pytest.mark.parametrize("language", SLEEPS)
async def test_an_early_interrupt_hits_at_once(kernels, numbers, language, early_s):
    number, began = next(numbers), time.monotonic()
    running = asyncio.ensure_future(play(kernels, language, SLEEPS[language], number, 10))
    await asyncio.sleep(early_s)
    kernels.interrupt(language, number)
    says, closed = await running
    assert closed.status == "interrupted"
    assert time.monotonic() - began < 5
    assert closed.last_word == says[-1]["notice"]
    assert closed.last_word.startswith(("The cell was interrupted on request.", NOT_YET))
    assert ("begun" in "".join(says[0].values())) <= (not closed.last_word.startswith(NOT_YET))


@pytest.mark.parametrize("deadline_s", [0.0001, 0.001, 0.003, 0.2, 0.2005])
async def test_what_is_said_of_a_cell_that_ends_about_its_deadline_is_true(kernels, numbers, deadline_s):
    says, closed = await play(
        kernels, "python", "import time; time.sleep(0.2); log('to the end')", next(numbers), deadline_s
    )
    texts = [text for said in says for text in said.values()]
    sentence = closed.last_word or ""
    is_interrupted = sentence.startswith(("The cell was interrupted at its", NOT_YET))
    has_ended = sentence.startswith("An interrupt came at its deadline of")
    assert "Usually one of them hangs" not in sentence
    # it may hit when the last word is out and the code has not ended yet
    assert is_interrupted or "to the end" in texts
    assert (is_interrupted or has_ended) == (closed.status == "timeout")


async def test_a_cell_that_catches_its_interrupt_is_said_to_have_ended_without_an_error(kernels, numbers):
    code = "import time\ntry: time.sleep(20)\nexcept KeyboardInterrupt: log('seen')"
    says, closed = await play(kernels, "python", code, next(numbers), 0.5)
    assert (closed.status, says[0]) == ("timeout", {"log": "seen"})
    assert says[1]["notice"].startswith(
        "An interrupt came at its deadline of 0.5 s, and the cell has ended without an error: its code caught the "
        "interrupt, or came to its end before that hit. The Python kernel goes on: variables set so far are kept. "
    )
