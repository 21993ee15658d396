"""Every case of the catalogue, as a test of its own: the id, then what is right.

The cases are data in the `*.jsonl` files beside this one. A report of a fault becomes a case by adding a line there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.cases.catalogue import Case, defines, named_tests, read_cases
from tests.cases.playing import Sessions, play, play_loop

CASES = sorted(
    read_cases(), key=lambda case: case.session == "fresh"
)  # the shared session is not open beside fresh ones
REAL = [pytest.mark.slow, pytest.mark.sandbox]


def named(case: Case) -> object:
    return pytest.param(case, id=case.id, marks=REAL if case.cells and not case.waits_for else [])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions() -> AsyncIterator[Sessions]:
    sessions = Sessions()
    yield sessions
    await sessions.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", [named(case) for case in CASES])
async def test_case(case: Case, sessions: Sessions) -> None:
    if case.waits_for is not None:
        pytest.skip(f"waits for {case.waits_for}: {case.title}")
    if case.not_applicable is not None:
        pytest.skip(f"cannot apply: {case.not_applicable}")
    for path, name in named_tests(case):
        assert defines(path, name), f"{case.id} is held by {path.name}::{name}, which is not there"
    if case.loop is not None:
        await play_loop(case.loop)
    if case.cells:
        await play(case, sessions)
