"""What a run does not keep, and what may be otherwise when it is done again, said the same way by `replay`, `resume` and `fork`.

Flows in: a run, and the words after `--env`, `--secret`, `--file` and `--sandbox`. Flows out: values, and files by the names that
they replace. Decided here: that a variable or a secret which the run names has a value only where the caller names it again:
the run may have come from somebody else, and its code gets what it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cellwright.cli import options
from cellwright.cli.secret_words import secrets_from, values_of
from cellwright.errors import UsageError
from cellwright.record import Run
from cellwright.sandbox.base import SecretSpec


@dataclass(frozen=True, kw_only=True)
class AgainOptions:
    """The options, as they were given; absent: not given."""

    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="A variable that the run was given: it keeps the names only. NAME alone takes the caller's value.",
        ),
    ] = None
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME",
            help="Let the run's cells use the caller's variable NAME as the secret of this name, as they did.",
        ),
    ] = None
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="PATH", help="Takes the place of the run's file of this name; may be repeated."),
    ] = None
    sandbox: Annotated[
        str | None, typer.Option("--sandbox", metavar="BACKEND", help="Another backend than the run's.")
    ] = None

    def environment(self, recorded: Run) -> dict[str, str]:
        """Return the run's variables with their values; raises as `environment_again`."""
        return environment_again(recorded, self.env or ())

    def secrets(self, recorded: Run) -> dict[str, str]:
        """Return the run's secrets with their values; raises as `secrets_again`."""
        return secrets_again(recorded, self.secret or ())

    def files(self) -> dict[str, Path]:
        """Return files by the name of the run's that each replaces; raises UsageError for one that is not there."""
        return {path.name: path for path in map(options.existing_file, self.file or ())}


def environment_again(recorded: Run, words: Sequence[str]) -> dict[str, str]:
    """Return the variables that a run was given, as they are said now; those that are not said are missing.

    Raises:
        UsageError: One is said that it was not given, or is not set here.
    """
    given = dict(options.variable(word) for word in words)
    names = recorded.info.spec.get("env") or []
    known = {str(name) for name in names} if isinstance(names, list) else set()
    if unknown := sorted(given.keys() - known):
        raise UsageError(
            f"--env {unknown[0]}: the run was given no such variable. Nothing ran. It has: {', '.join(sorted(known)) or 'none'}."
        )
    return given


def secrets_again(recorded: Run, words: Sequence[str]) -> dict[str, str]:
    """Return the values of a run's secrets, each named again: the caller's variables, or what a person types.

    Raises:
        UsageError: One is not named again, is none of the run's, is named for other hosts than the run's, or has no value.
    """
    said = recorded.info.spec.get("secrets") or []
    known = [SecretSpec.model_validate(one) for one in said] if isinstance(said, list) else []
    hosts = {secret.name: secret.hosts for secret in known}
    given = secrets_from(words)
    for secret in given:
        if secret.name not in hosts:
            has = ", ".join(sorted(hosts)) or "none"
            raise UsageError(
                f"--secret {secret.name}: the run was given no such secret. Nothing was started. It has: {has}."
            )
        if secret.hosts and set(secret.hosts) != set(hosts[secret.name]):
            raise UsageError(
                f"--secret {secret.name}: in the run it {_places(hosts[secret.name])}, and nothing else can be said. "
                "Nothing was started. Write the name alone if that is meant."
            )
    if missing := [secret for secret in known if secret.name not in {one.name for one in given}]:
        was_given = "; ".join(f"{secret.name}, which {_places(secret.hosts)}" for secret in missing)
        again = " ".join(f"--secret {secret.name}" for secret in missing)
        raise UsageError(
            f"The run was given secrets, and keeps the names only: {was_given}. Nothing was started. If its code may use yours, "
            f"give them again: {again}."
        )
    return values_of(known)


def _places(hosts: Sequence[str]) -> str:
    return f"may go to {', '.join(hosts)}" if hosts else "may be typed into any field"
