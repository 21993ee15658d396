"""`cellwright resume`, `fork` and `diff` as a person types them, as far as no sandbox is started."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from cellwright.cli import main, resume
from cellwright.cli.going_on import GoingOnOptions
from cellwright.loop import Outcome, run
from cellwright.model.base import DEFAULT_MODEL
from cellwright.record import find_run, list_runs, read_run
from cellwright.record.run_info import RunEnd
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls


def status_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return caught.value.code


def by_hand(*codes: str, spec: Spec | None = None, status: RunEnd = "done") -> str:
    async def driven() -> str:
        async with Session.open(spec, backend=FakeBackend()) as session:
            for code in codes:
                await session.execute(code)
            session.conclude(status)
        return session.run_id

    return asyncio.run(driven())


def by_model(name: str = "emulator") -> str:
    """A run that fails since its model has no second turn."""

    async def driven() -> Outcome:
        return await run("Do it.", model=ScriptedModel([calls("x = 1")], name=name), backend=FakeBackend())

    outcome = asyncio.run(driven())
    assert outcome.status == "failed"
    return outcome.run_id


def test_run_that_is_done_is_not_resumed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_id = by_hand("x = 1")
    assert status_of(monkeypatch, "resume", run_id) == 2
    assert f"`cellwright fork {run_id} --at 1 TASK` goes on from where it ended" in capsys.readouterr().err


def test_run_that_was_played_needs_its_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(monkeypatch, "resume", by_model()) == 2
    assert "Give --emulate SCRIPT, or --model." in capsys.readouterr().err


def test_code_is_for_runs_without_a_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(monkeypatch, "resume", by_model(DEFAULT_MODEL), "--exec", "1") == 2
    assert "--exec goes on where no model does" in capsys.readouterr().err


def test_variable_of_the_run_has_to_be_given_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = by_hand(spec=Spec(env={"PLACE": "here"}), status="failed")
    assert status_of(monkeypatch, "resume", run_id) == 2
    assert "Give the values again: --env PLACE=VALUE." in capsys.readouterr().err
    assert status_of(monkeypatch, "resume", run_id, "--env", "OTHER=1") == 2
    assert "the run was given no such variable" in capsys.readouterr().err


def test_code_of_a_record_is_not_executed_without_isolation_unasked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = by_hand("x = 1", spec=Spec(backend="none"), status="failed")
    assert status_of(monkeypatch, "resume", run_id) == 2
    assert "Say so with --sandbox none" in capsys.readouterr().err


def test_where_nobody_can_be_asked_it_says_which_cells_are_left_and_how_to_have_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = read_run(find_run(by_hand("x = 1", "y = 2", status="failed")))
    GoingOnOptions(mark=[2]).plan(recorded)
    said = capsys.readouterr().err
    assert "not executed again, since nobody can be asked here: cell 2." in said
    assert "--rerun recorded" in said
    GoingOnOptions(mark=[2], rerun="safe").plan(recorded)
    GoingOnOptions().plan(recorded)
    assert capsys.readouterr().err == ""


def test_fork_wants_something_to_go_on_with_and_a_cell_that_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = by_hand("x = 1")
    assert status_of(monkeypatch, "fork", run_id, "--at", "1") == 2
    assert "Give a TASK, or one cell by --exec." in capsys.readouterr().err
    assert status_of(monkeypatch, "fork", run_id, "Do it.", "--at", "1", "--exec", "1") == 2
    assert "Give one of them." in capsys.readouterr().err
    assert status_of(monkeypatch, "fork", run_id, "--at", "2", "--exec", "1") == 2
    assert "it has 1 cell" in capsys.readouterr().err
    assert status_of(monkeypatch, "fork", run_id, "--at", "1", "--exec", "1", "--lang", "perl") == 2
    assert "There is no language 'perl'" in capsys.readouterr().err
    assert status_of(monkeypatch, "fork", run_id, "--at", "1", "--exec", "1", "--file", "not there") == 2
    assert "there is no such file or folder" in capsys.readouterr().err
    assert [one.run_id for one in list_runs()] == [run_id]


def test_task_of_a_fork_is_written_without_the_values_of_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def driven() -> str:
        spec = Spec(secrets=(SecretSpec(name="PASSWORD"),))
        async with Session.open(spec, backend=FakeBackend(), secrets={"PASSWORD": "a-long-secret-42"}) as session:
            await session.execute("x = 1")
        return session.run_id

    run_id = asyncio.run(driven())
    monkeypatch.setenv("PASSWORD", "a-long-secret-42")
    monkeypatch.setattr(resume, "_go_on", lambda *_: None)
    words = ["fork", run_id, "Log in with a-long-secret-42.", "--at", "1", "--secret", "PASSWORD"]
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code in {None, 0}
    (forked,) = [Path(one.folder) for one in list_runs() if one.run_id != run_id]
    written = [file.read_bytes() for file in sorted(forked.rglob("*")) if file.is_file()]
    assert written
    assert not [data for data in written if b"a-long-secret-42" in data]


def test_diff_is_0_only_if_all_is_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    one, same, other = by_hand("log(1)"), by_hand("log(1)"), by_hand("log(2)", "log(3)")
    assert status_of(monkeypatch, "diff", one, same) == 0
    assert "same: 1 cell in both" in capsys.readouterr().out
    assert status_of(monkeypatch, "diff", one, other) == 1
    said = capsys.readouterr().out
    assert "Its code is another." in said
    assert f"Only run {other} has it." in said
    assert status_of(monkeypatch, "diff", one, other, "--json") == 1
    whole = json.loads(capsys.readouterr().out)
    assert (whole["divergence"], [cell["verdict"] for cell in whole["cells"]]) == (1, ["differs", "differs"])
