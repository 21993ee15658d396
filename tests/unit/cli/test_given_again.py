"""What a run's code gets of the caller's when it is done again: only what the caller names; the run may be a stranger's."""

from __future__ import annotations

import asyncio
import sys

import pytest

from cellwright.cli import main
from cellwright.cli.given_again import environment_again, secrets_again
from cellwright.errors import UsageError
from cellwright.record import Run, open_run, read_run
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

SECRETS = (SecretSpec(name="KEY", hosts=("api.example.com",)), SecretSpec(name="PASSWORD"))


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACE", "KEY", "PASSWORD", "OTHER"):
        monkeypatch.setenv(name, f"the caller's {name}")


def made_from(spec: Spec) -> Run:
    with open_run(session_id="s", driver="library", spec=spec) as journal:
        pass
    return read_run(journal.folder)


def test_a_variable_is_the_callers_only_where_the_caller_names_it() -> None:
    run = made_from(Spec(env={"PLACE": "there"}))
    assert environment_again(run, ()) == {}
    assert environment_again(run, ("PLACE",)) == {"PLACE": "the caller's PLACE"}
    assert environment_again(run, ("PLACE=here",)) == {"PLACE": "here"}
    with pytest.raises(UsageError, match=r"--env OTHER: the run was given no such variable\."):
        environment_again(run, ("OTHER",))


def test_a_secret_is_named_again() -> None:
    run = made_from(Spec(secrets=SECRETS))
    values = {"KEY": "the caller's KEY", "PASSWORD": "the caller's PASSWORD"}
    assert secrets_again(run, ("KEY", "PASSWORD")) == values
    assert secrets_again(run, ("KEY@api.example.com", "PASSWORD")) == values
    assert secrets_again(made_from(Spec()), ()) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "KEY, which may go to api.example.com; PASSWORD, which may be typed into any field. Nothing was started."),
        ((), "give them again: --secret KEY --secret PASSWORD."),
        (("KEY",), "give them again: --secret PASSWORD."),
        (("KEY", "PASSWORD", "OTHER"), "--secret OTHER: the run was given no such secret."),
        (
            ("KEY@example.org", "PASSWORD"),
            "--secret KEY: in the run it may go to api.example.com, and nothing else can be",
        ),
    ],
)
def test_a_secret_that_is_not_named_as_the_run_has_it_is_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        secrets_again(made_from(Spec(secrets=SECRETS)), words)
    assert says in str(refused.value)
    assert "the caller's" not in str(refused.value)


@pytest.mark.parametrize("command", [("replay",), ("resume",), ("fork", "--at", "1", "--exec", "1")])
@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (Spec(env={"PLACE": "there"}), "--env PLACE=VALUE"),
        (Spec(secrets=(SecretSpec(name="KEY"),)), "give them again: --secret KEY."),
    ],
)
def test_every_command_asks_for_what_the_run_names(
    command: tuple[str, ...],
    spec: Spec,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def driven() -> str:
        values = {secret.name: "another" for secret in spec.secrets}
        async with Session.open(spec, backend=FakeBackend(), secrets=values) as session:
            await session.execute("x = 1")
            session.conclude("failed")
        return session.run_id

    monkeypatch.setattr(sys, "argv", ["cellwright", command[0], asyncio.run(driven()), *command[1:]])
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    assert says in capsys.readouterr().err
