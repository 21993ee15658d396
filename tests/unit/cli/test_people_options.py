"""Who approves, as a person types it; a run that goes on is approved as it was."""

from __future__ import annotations

import pytest

from cellwright.asking import Approval, Pending
from cellwright.cli.people_options import PeopleOptions
from cellwright.cli.terminal import Terminal
from cellwright.errors import UsageError
from cellwright.people import People
from cellwright.record import Run, read_run
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


class Willing:
    async def approve(self, _: Pending) -> Approval:
        return Approval(approved=True)


async def approved(people: People | None) -> Run:
    async with Session.open(backend=FakeBackend(), people=people) as session:
        await session.execute("log(1)")
    return read_run(session.run_dir)


async def test_a_run_whose_cells_were_approved_goes_on_with_a_person_or_where_it_is_said_that_none_need_be() -> None:
    recorded = await approved(People(approver=Willing(), approve="each"))
    with pytest.raises(UsageError, match="Go on at a terminal, or say --approve never"):
        PeopleOptions().people(None, recorded)
    assert PeopleOptions().people(Terminal(), recorded).approve == "each"
    assert PeopleOptions(approve="never").people(None, recorded).approve == "never"


async def test_a_run_that_nobody_approved_goes_on_as_it_was() -> None:
    assert PeopleOptions().people(None, await approved(None)).approve == "never"
    assert PeopleOptions().people(None).approve == "never"


def test_a_rule_that_is_none_and_one_that_nobody_could_follow_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no such rule"):
        PeopleOptions(approve="always").people(None)
    with pytest.raises(UsageError, match="--approve each asks a person, and nobody can be asked here"):
        PeopleOptions(approve="each").people(None)
