"""Every case of the catalogue, as a test of its own: the id, then what is right.

The cases are data in the `*.jsonl` files beside this one. A report of a fault becomes a case by adding a line there.
A case that waits for a part that is not there yet is no test: `test_catalogue.py` tells which those are, and for what.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.cases.catalogue import Case, defines, named_tests, read_cases
from tests.cases.playing import Fresh, Sessions, play, play_loop

APPLICABLE = [case for case in read_cases() if case.waits_for is None and case.not_applicable is None]
CASES = sorted(APPLICABLE, key=lambda case: case.session == "fresh")  # the shared session is not open beside fresh ones
REAL = [pytest.mark.slow, pytest.mark.sandbox]


def named(case: Case) -> object:
    return pytest.param(case, id=case.id, marks=REAL if case.cells else [])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions() -> AsyncIterator[Sessions]:
    sessions = Sessions()
    yield sessions
    await sessions.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fresh(sessions: Sessions, request: pytest.FixtureRequest) -> AsyncIterator[Fresh]:
    played = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    fresh = Fresh([case for case in CASES if case in played], sessions)
    yield fresh
    await fresh.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", [named(case) for case in CASES])
async def test_case(case: Case, sessions: Sessions, fresh: Fresh) -> None:
    for path, name in named_tests(case):
        assert defines(path, name), f"{case.id} is held by {path.name}::{name}, which is not there"
    if case.loop is not None:
        await play_loop(case.loop)
    if case.cells and case.session == "fresh":
        await fresh.play(case)
    elif case.cells:
        await play(case, sessions)
