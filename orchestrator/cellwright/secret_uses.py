"""What cells ask to have done with secrets, and what is done.

Flows in: a cell's question, as the kernel host tells it. Flows out: the value, to be typed; a placeholder; or a sentence why
not; and a note in the journal, by name. Decided here: a secret that is bound to hosts is typed into their pages only, as
far as the kernel host tells the truth of where the keyboard is; one that is not has no placeholder. A value leaves this
side only as the answer to a question that was allowed, and through the egress proxy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from cellwright.egress import AllowList
from cellwright.egress.rules import plain_host
from cellwright.errors import UsageError
from cellwright.record.journal import Journal
from cellwright.record.records import Note
from cellwright.sandbox.base import Spec
from cellwright.sandbox.door import Door
from cellwright.secrets import Secrets
from cellwright_kernel.wire import Event, Execute, SecretAnswer, SecretAskedEvent

USES: Final = 200
"""Most questions of one cell that are answered; a form has a handful."""
_PORTS: Final = {"http": 80, "https": 443}


def secrets_of(spec: Spec, values: Mapping[str, str]) -> Secrets:
    """Return the secrets that a Spec names, with their values.

    Raises:
        UsageError: One has no value, a value is not a secret's, one is bound to what is no host, or stands in a parameter.
    """
    names = {secret.name for secret in spec.secrets}
    if missing := sorted(names - values.keys()):
        raise UsageError(f"The secret {missing[0]} has no value. Nothing was started. Give `secrets={{NAME: value}}`.")
    if unknown := sorted(values.keys() - names):
        raise UsageError(f"The Spec names no secret {unknown[0]}. Nothing was started. Name it in `Spec.secrets`.")
    for secret in spec.secrets:
        AllowList.of(secret.hosts, option=f"--secret {secret.name}@")
    secrets = Secrets(dict(values), {secret.name: secret.hosts for secret in spec.secrets})
    if shown := sorted(name for name, value in spec.params.items() if secrets.hide(value) != value):
        raise UsageError(
            f"The parameter {shown[0]} says the value of a secret, which cells and the model would see. Nothing was started. Leave "
            "it out: cells use the secret by its name."
        )
    return secrets


class SecretUses:
    """Answers the cells of one session.

    Args:
        secrets: The values.
        journal: Where each use is noted.
    """

    def __init__(self, secrets: Secrets, journal: Journal) -> None:
        self._secrets = secrets
        self._journal = journal
        self._cell = 0
        self._uses = 0

    async def answered(self, door: Door, request: Execute) -> AsyncIterator[Event]:
        """Post a cell and yield its events, without its questions, which are answered.

        Raises:
            SandboxLost: As with `Door.execute`, or the kernel host did not take an answer.
        """
        async for event in door.execute(request):
            if isinstance(event, SecretAskedEvent):
                await self._answer(event, door, request.number)
            else:
                yield event

    async def _answer(self, event: SecretAskedEvent, door: Door, cell: int) -> None:
        if cell != self._cell:
            self._cell, self._uses = cell, 0
        self._uses += 1
        if self._uses > USES:
            await door.answer(event.number, _no(f"One cell may use secrets {USES} times. Nothing was typed or given."))
            return
        said = self.decide(event)
        self._note(event, said, cell)
        await door.answer(event.number, said)

    def decide(self, event: SecretAskedEvent) -> SecretAnswer:
        """Return what is answered."""
        name = event.name
        if name not in self._secrets.names:
            there = ", ".join(self._secrets.names) or "none"
            return _no(
                f"There is no secret {name!r} in this session; there are: {there}. Nothing was typed or given. Whoever starts "
                "the session gives one with `--secret NAME`."
            )
        hosts = self._secrets.hosts[name]
        if event.use == "header":
            if hosts:
                return SecretAnswer(text=self._secrets.placeholders[name])
            return _no(
                f"The secret {name} is bound to no host, so there is nothing to stand for it in a request: it can be typed. "
                f"Whoever starts the session binds it with `--secret {name}@HOST`."
            )
        if hosts and not _is_at(event.url, hosts):
            where = (
                f"is a page of {event.url}" if event.url else "belongs to another program, or to a page without a host"
            )
            return _no(
                f"The secret {name} is bound to {', '.join(hosts)}, and typed into pages from there only. What has the keyboard "
                f"{where}. Nothing was typed. Click into the field that it is meant for."
            )
        return SecretAnswer(text=self._secrets.value(name))

    def _note(self, event: SecretAskedEvent, said: SecretAnswer, cell: int) -> None:
        if said.refused is not None:
            text = f"The use of a secret was refused: {said.refused}"
        elif event.use == "header":
            text = f"The cell was given a placeholder of the secret {event.name}."
        else:
            where = f"a page of {event.url}" if event.url else "a field of another program, or of a page without a host"
            text = f"The secret {event.name} was given to be typed into {where}, as the kernel host says."
        self._journal.append(Note(topic="secret", text=text, cell=cell))


def _is_at(url: str | None, hosts: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url or "")
        host, port = plain_host(parts.hostname or ""), parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return False
    return host is not None and AllowList.of(hosts).rule_for(host, port) is not None


def _no(sentence: str) -> SecretAnswer:
    return SecretAnswer(refused=sentence)
