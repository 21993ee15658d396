"""What a model is told of a resume is bounded, whatever the cells did."""

from __future__ import annotations

from cellwright.record.reader import read_run
from cellwright.record.records import CellRebuilt, RequestSent
from cellwright.replay.missed import Missed
from cellwright.replay.plan import plan_for
from cellwright.replay.rebuild import Rebuilt
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

LONG = "http://x.test:80/" + "a" * 5000


def test_three_misses_of_a_cell_are_named_and_the_rest_is_counted() -> None:
    missed = Missed()
    for number in (1, 2, 2, 3, 4, 5):
        missed(f"GET http://x.test:80/{number} is not in the record.", matters=False)
    assert missed.taken() == (
        *(f"GET http://x.test:80/{number} is not in the record." for number in (1, 2, 3)),
        "2 more requests had no answer in the record either.",
    )
    assert missed.taken() == ()


def test_address_of_a_miss_is_cut() -> None:
    missed = Missed()
    missed(f"GET {LONG} is not in the record.", matters=False)
    assert missed.taken() == (f"GET {LONG[:197]}... is not in the record.",)


async def test_addresses_that_a_cell_sent_to_are_cut() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("x = 1")
        session.journal.append(RequestSent(cell=1, method="POST", host="x.test", port=80, target="/" + "a" * 5000))
    (planned,) = plan_for(read_run(session.run_dir), "safe").cells
    assert planned.reason == f"It sent POST {LONG[:197]}...."


def test_cells_beyond_those_that_are_named_are_counted_as_what_they_are() -> None:
    cells = tuple(CellRebuilt(number=number, reason="It was left.") for number in range(1, 54))
    lines = Rebuilt(cells).words("It stopped.").split("\n")
    assert lines[51:53] == [
        "Cell 50 was not executed again. It was left.",
        "3 more cells are not as before either; `cellwright show` has them.",
    ]


def test_words_have_a_ceiling() -> None:
    cells = tuple(
        CellRebuilt(
            number=number, status="ok" if number % 2 else None, reason=None if number % 2 else "It sent. " * 300
        )
        for number in range(1, 5000)
    )
    missing = tuple(f"The file {'a' * 200}{number} was too large." for number in range(5000))
    words = Rebuilt(cells, missing).words("It stopped.")
    assert len(words) < 30_000
    assert "more cells are not as before either; `cellwright show` has them." in words
    assert "more things are not as before either; `cellwright show` has them." in words
    assert words.endswith("what these cells did may be done already.")
