"""A replay as a whole, over a fake sandbox: what it asks for before it begins, what it tells, and what does not end it."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import pytest
from tests.unit.replay.conftest import PNG, add_cell

from cellwright.record import Journal, Run, read_run
from cellwright.replay.diff import diff
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.replay import Again, replay
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.wire import Image


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
