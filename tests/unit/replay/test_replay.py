"""A replay as a whole, over a fake sandbox: what it asks for before it begins, what it tells, and what does not end it."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pytest
from tests.unit.replay.conftest import PNG, add_cell

from cellwright.errors import UsageError
from cellwright.record import Journal, Run, read_run
from cellwright.replay.diff import diff
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.replay import Again, _LeftRecord, replay
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.wire import Image, Text


async def record(*codes: str) -> Run:
    async with Session.open(backend=FakeBackend()) as session:
        for code in codes:
            await session.execute(code)
    return read_run(session.run_dir)


async def test_a_cell_whose_record_is_damaged_meanwhile_has_failed_and_the_others_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builtins, "damage", lambda: None, raising=False)
    run = await record("damage()", "log('x' * 100_000)", "log(3)")

    def damage() -> None:
        for blob in (run.folder / "blobs").iterdir():
            blob.unlink()

    monkeypatch.setattr(builtins, "damage", damage)
    replayed = await replay(run, Again(keep_going=True), backend=FakeBackend())
    assert [cell.verdict for cell in replayed.cells] == ["same", "failed", "same"]
    (reason,) = replayed.cells[1].reasons
    assert "cannot be read" in reason


async def test_a_picture_that_cannot_be_compared_does_not_end_a_diff(made: Callable[..., Run]) -> None:
    def filled(png: bytes) -> Callable[[Journal], None]:
        def fill(journal: Journal) -> None:
            add_cell(journal, "display(page)", Image(media_type="image/png", width=4, height=3, data=png))
            add_cell(journal, "1")

        return fill

    one, other = made(filled(PNG), run_id="one"), made(filled(PNG + b"2"), run_id="other")
    cells = [cell async for cell in diff(one, other, MayDiffer.read(), backend=FakeBackend())]  # that decodes none
    assert [cell.verdict for cell in cells] == ["failed", "same"]


@pytest.mark.parametrize(("first", "last"), [(1, 3), (3, None), (2, 1)])
async def test_a_part_of_a_run_that_has_no_cell_is_refused_and_nothing_runs(first: int, last: int | None) -> None:
    run, backend = await record("log(1)", "log(2)"), FakeBackend()
    with pytest.raises(UsageError, match="has cells 1 to 2; none of them is to be compared from"):
        await replay(run, Again(first=first, last=last), backend=backend)
    assert backend.made == []


class Lately:
    """A backend whose sandboxes say something of cells that are over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backend = FakeBackend()
        monkeypatch.setattr(builtins, "lately", self.lately, raising=False)
        self.says: dict[int, str] = {}
        """By number of the cell of which it comes late; what is not in it is not said."""

    def lately(self, number: int) -> None:
        if number in self.says:
            text = Text(text=self.says[number], source="stdout", of_cell=number)
            self.backend.made[-1].late.append(text)

    async def record(self, *codes: str) -> Run:
        async with Session.open(backend=self.backend) as session:
            for code in codes:
                await session.execute(code)
        return read_run(session.run_dir)

    async def replay(self, run: Run, again: Again) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Return what was told, and what came of it at the end."""
        told: list[tuple[int, str]] = []
        replayed = await replay(
            run, again, on_cell=lambda cell: told.append((cell.number, cell.verdict)), backend=self.backend
        )
        return told, [(cell.number, cell.verdict) for cell in replayed.cells]


async def test_a_cell_of_which_something_comes_late_is_told_when_all_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    lately = Lately(monkeypatch)
    lately.says[1] = "late"
    run = await lately.record("log(1)", "lately(1)", "log(3)")
    assert run.stored_cells[0].late
    told, whole = await lately.replay(run, Again())
    assert (told, whole) == ([(2, "same"), (3, "same"), (1, "same")], [(1, "same"), (2, "same"), (3, "same")])


async def test_a_cell_that_is_another_at_the_end_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lately = Lately(monkeypatch)
    run = await lately.record("log(1)", "lately(1)", "log(3)")
    lately.says[1] = "late"
    told, whole = await lately.replay(run, Again())
    assert told == [(1, "same"), (2, "same"), (3, "same"), (1, "differs")]
    assert whole == [(1, "differs"), (2, "same"), (3, "same")]


async def test_a_replay_that_stopped_at_a_cell_is_not_the_same_by_what_comes_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lately = Lately(monkeypatch)
    monkeypatch.setattr(builtins, "said", lambda: print("words"), raising=False)
    run = await lately.record("log(1)\nsaid()\nlately(1)", "log(2)")
    monkeypatch.setattr(builtins, "said", lambda: None)
    lately.says[1] = "words\n"
    assert await lately.replay(run, Again()) == ([(1, "differs")], [(1, "differs")])


def test_what_code_asks_for_without_end_is_named_in_bounded_length() -> None:
    left = _LeftRecord()
    for number in range(100_000):
        left(f"GET https://x.test:443/{number}{'a' * 1000} is not in the record.", matters=False)
    left("POST https://x.test:443/ is not in the record.", matters=True)
    told = left.taken()
    assert told[0] == ("POST https://x.test:443/ is not in the record.", True)
    assert told[-1] == ("99950 more requests had no answer in the record either.", False)
    assert (len(told), max(len(sentence) for sentence, _ in told) < 300, left.taken()) == (52, True, ())
