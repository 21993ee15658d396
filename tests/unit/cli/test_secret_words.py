"""`--secret` as it is written, and what is said when it cannot be meant; a value on the command line is never repeated."""

from __future__ import annotations

import pytest

from cellwright.cli import secret_words
from cellwright.cli.options import SpecOptions
from cellwright.cli.secret_words import secrets_from, values_of
from cellwright.errors import UsageError
from cellwright.sandbox.base import SecretSpec


def test_names_and_hosts_are_read_and_put_together() -> None:
    words = ["KEY@api.example.com,*.example.org:443", "PASSWORD", "KEY@localhost:8000", "KEY@api.example.com"]
    assert secrets_from(words) == (
        SecretSpec(name="KEY", hosts=("api.example.com", "*.example.org:443", "localhost:8000")),
        SecretSpec(name="PASSWORD"),
    )
    assert SpecOptions(secrets=words).spec().secrets == secrets_from(words)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("KEY=hunter2", "takes a name, and no value: everybody on this machine could read it."),
        ("KEY=hunter2@host", "takes a name, and no value"),
        ("", "is not a name"),
        ("A-B", "is not a name"),
        ("K" * 65, "is not a name"),
        ("KEY@", "names no host"),
        ("KEY@http://example.com", "only the host and its port belong here"),
        ("KEY@localhost", "Write the port too"),
    ],
)
def test_a_word_that_cannot_be_meant_is_refused(word: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        SpecOptions(secrets=[word]).spec()
    assert why in str(refused.value)
    assert "Nothing was started." in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_values_come_from_the_environment_or_from_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hunter2")
    monkeypatch.delenv("OTHER", raising=False)
    assert SpecOptions(secrets=["KEY@example.com"]).secret_values() == {"KEY": "hunter2"}
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="--secret OTHER: this variable is not set here"):
        values_of([SecretSpec(name="OTHER")])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(secret_words.getpass, "getpass", lambda asked: f"typed at {asked!r}")
    assert values_of([SecretSpec(name="OTHER")]) == {"OTHER": "typed at 'Value of the secret OTHER: '"}


def test_an_env_that_cannot_be_is_refused_without_its_value() -> None:
    with pytest.raises(UsageError) as refused:
        SpecOptions(env=["A=hunter2\0"]).spec()
    assert "hunter2" not in str(refused.value)
