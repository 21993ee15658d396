"""What a run's own Spec decides when it is done again, and what it does not: it may come from somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.errors import UsageError
from cellwright.record import Run, open_run, read_run
from cellwright.replay.replay import Again, spec_again
from cellwright.sandbox.base import Spec


def made_from(spec: Spec) -> Run:
    with open_run(session_id="s", driver="library", spec=spec) as journal:
        pass
    return read_run(journal.folder)


def test_shape_and_way_out_are_the_runs_and_files_do_not_enter_by_their_old_paths() -> None:
    spec = Spec(
        width=1000, height=700, browser=False, allow=("example.com",), files=(Path("/tmp/a"),), out=Path("/tmp/b")
    )
    assert spec_again(made_from(spec), Again()) == Spec(width=1000, height=700, browser=False, allow=("example.com",))


def test_what_starts_sandboxes_here_is_not_the_runs_to_say() -> None:
    run = made_from(Spec(backend="podman", image="example.com/other:latest", runtime="/tmp/other"))
    assert spec_again(run, Again()) == Spec(backend="podman")
    assert spec_again(run, Again(backend="bubblewrap")) == Spec()


def test_without_isolation_it_runs_only_where_that_is_said_again() -> None:
    run = made_from(Spec(backend="none"))
    with pytest.raises(UsageError, match="Say so with --sandbox none, or name a backend that isolates"):
        spec_again(run, Again())
    assert spec_again(run, Again(backend="none")) == Spec(backend="none")
    assert spec_again(run, Again(backend="bubblewrap")) == Spec()


def test_variables_are_given_again() -> None:
    run = made_from(Spec(env={"A": "1", "B": "2"}))
    with pytest.raises(UsageError, match="Give the values again: --env B=VALUE"):
        spec_again(run, Again(env={"A": "1"}))
    assert spec_again(run, Again(env={"A": "1", "B": "2"})) == Spec(env={"A": "1", "B": "2"})
