"""Every fault of a model's server, however it is asked and whenever it happens: each run ends as it should, and does nothing twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.sockets.matrix import ENDS, MODES, combinations, play, wrong_with

from cellwright.emulator.faults import BY_NAME, FAULTS


def _title(value: object) -> str:
    return value if isinstance(value, str) else ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "streams", "chains"),
    [
        pytest.param(
            *mode, id=f"{mode[0]}-{'streamed' if mode[1] else 'whole'}-{'chained' if mode[2] else 'unchained'}"
        )
        for mode in MODES
    ],
)
async def test_run_with_a_fault_ends_as_it_should_and_does_nothing_twice(
    fault: str, streams: bool, chains: bool, states: Path
):
    ones = list(combinations(fault, streams, chains))
    played = await asyncio.gather(*(play(one, states / "runs") for one in ones))
    wrong = {str(one): found for one, seen in zip(ones, played, strict=True) if (found := wrong_with(one, seen))}
    assert wrong == {}


def test_matrix_has_more_than_200_combinations_of_more_than_28_faults():
    assert len(FAULTS) >= 28
    assert sum(len(list(combinations(*mode))) for mode in MODES) >= 200


def test_every_expected_end_is_of_a_fault_that_there_is():
    assert ENDS.keys() - BY_NAME.keys() == set()
