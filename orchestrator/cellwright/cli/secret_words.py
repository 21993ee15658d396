"""`--secret NAME[@HOST,...]` -> names and hosts for the Spec, and values.

Flows in: the words, this process's environment, and a person at the terminal. Flows out: `SecretSpec`s; values by name. Decided
here: that a value is never written on a command line, where every process of the machine can read it: it comes from the
caller's environment, or is asked for without being shown.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Sequence

from cellwright.egress import AllowList
from cellwright.errors import UsageError
from cellwright.sandbox.base import SecretSpec

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def secrets_from(words: Sequence[str]) -> tuple[SecretSpec, ...]:
    """Return the secrets that the words name; one that is named twice has the hosts of both.

    Raises:
        UsageError: A word names none. What stands in it behind `=` is not repeated.
    """
    hosts: dict[str, list[str]] = {}
    for word in words:
        name, at, places = word.partition("@")
        if "=" in name:
            raise UsageError(
                "--secret takes a name, and no value: everybody on this machine could read it. Nothing was started. Export the "
                "value as a variable and write `--secret NAME`."
            )
        if not _NAME.fullmatch(name):
            raise UsageError(f"--secret {name[:64]!r} is not a name. Nothing was started. Write NAME or NAME@HOST.")
        entries = [entry for entry in places.split(",") if entry] if at else []
        if at and not entries:
            raise UsageError(f"--secret {name}@ names no host. Nothing was started. Write {name}@HOST.")
        AllowList.of(entries, option=f"--secret {name}@")
        hosts.setdefault(name, []).extend(entries)
    return tuple(SecretSpec(name=name, hosts=tuple(dict.fromkeys(places))) for name, places in hosts.items())


def values_of(secrets: Sequence[SecretSpec]) -> dict[str, str]:
    """Return the value of each secret: the variable of its name, or what a person types.

    Raises:
        UsageError: The variable is not set, and there is nobody to ask.
    """
    return {secret.name: _value(secret.name) for secret in secrets}


def _value(name: str) -> str:
    if name in os.environ:
        return os.environ[name]
    if sys.stdin.isatty():
        return getpass.getpass(f"Value of the secret {name}: ")
    raise UsageError(
        f"--secret {name}: this variable is not set here, and there is no terminal to ask at. Nothing was started. Export "
        f"{name} with the value."
    )
