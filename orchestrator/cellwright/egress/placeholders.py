"""What stands for a secret in a request -> the secret, or a refusal.

Flows in: headers, paths and bodies as the inside sends them. Flows out: headers with values, for the hosts that the secrets
are bound to; and a sentence for every other place in which a placeholder stands. Decided here: values go into headers only,
also within the base64 of `Authorization: Basic`; a URL is written into logs, and a body may be kept and shown. Upper and
lower case are one where a placeholder is refused: a host name changes them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

from cellwright.egress.rules import AllowList
from cellwright.secrets import Secrets

Headers = list[tuple[bytes, bytes]]

_BASIC: Final = re.compile(rb"(?i)(basic +)([A-Za-z0-9+/]+={0,2}) *")


class Refused(Exception):
    """Something is not sent on, for the sake of secrets; `str()` of it is the sentence for whoever sent it."""

    names: tuple[str, ...] = ()
    """Of the secrets whose placeholders were found."""


class Misplaced(Refused):
    """A placeholder stands where it must not."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.names = (name,)


class Placeholders:
    """The placeholders of one session; false when there are none.

    Args:
        secrets: Their values, and the hosts that each is bound to.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._values = {
            placeholder.encode(): (name, secrets.value(name).strip().encode())
            for name, placeholder in secrets.placeholders.items()
        }
        self._bound = {name: AllowList.of(secrets.hosts[name]) for name in secrets.names}
        self._any = re.compile(b"|".join(re.escape(one.lower()) for one in self._values) or rb"(?!)")
        self._most = max(map(len, self._values), default=0)

    def __bool__(self) -> bool:
        return bool(self._values)

    def filled(self, headers: Iterable[tuple[bytes, bytes]], host: str, port: int) -> tuple[Headers, tuple[str, ...]]:
        """Return headers with values in place of placeholders, and the names of the secrets that went into them.

        Raises:
            Misplaced: One is not bound to this host, or stands in a header's name.
        """
        filled: Headers = []
        names: dict[str, None] = {}
        for header, value in headers:
            self.refuse(header, "the name of a header", host, port)
            basic = _BASIC.fullmatch(value)
            inner = _decoded(basic[2]) if basic and header.lower().endswith(b"authorization") else None
            if inner is not None and self._any.search(inner.lower()):
                new = self._fill(inner, host, port, names)
                filled.append((header, b"Basic " + base64.b64encode(new)))
            else:
                filled.append((header, self._fill(value, host, port, names).strip()))
        return filled, tuple(names)

    def refuse(self, data: bytes, where: str, host: str, port: int) -> None:
        """Return when no placeholder stands in bytes.

        Args:
            data: What is about to be sent.
            where: What it is: `the URL`, ...
            host: Where it is for.
            port: The same.

        Raises:
            Misplaced: One does.
        """
        found = self._any.search(data.lower())
        if found is None:
            return
        name = next(name for placeholder, (name, _) in self._values.items() if placeholder.lower() == found[0])
        bound = f"bound to {self._bound[name]}" if self._bound[name].rules else "bound to no host"
        raise Misplaced(
            name,
            f"What stands for the secret {name} stood in {where} of a request to {host}:{port}. The secret is {bound}, and its "
            "value is put into headers of unencrypted requests to that alone. It was not sent on. Put "
            f'`secrets.header("{name}")` into a header.',
        )

    def watch(self, where: str, host: str, port: int) -> Watch:
        """Return what looks for placeholders in bytes that come in pieces; arguments as for `refuse`."""
        return Watch(self, where, host, port, self._most)

    def is_bound(self, host: str, port: int) -> bool:
        """Return whether any secret is bound to a host."""
        return any(bound.rule_for(host, port) is not None for bound in self._bound.values())

    def _fill(self, value: bytes, host: str, port: int, names: dict[str, None]) -> bytes:
        for placeholder, (name, secret) in self._values.items():
            if placeholder in value:
                if self._bound[name].rule_for(host, port) is None:
                    raise self._not_bound(name, host, port)
                value = value.replace(placeholder, secret)
                names[name] = None
        self.refuse(value, "a header, in another spelling,", host, port)
        return value

    def _not_bound(self, name: str, host: str, port: int) -> Misplaced:
        bound = self._bound[name]
        to = f"to {bound} only" if bound.rules else "to no host"
        return Misplaced(
            name,
            f"The secret {name} is bound {to}, and a request to {host}:{port} had what stands for it in a header. Nothing was "
            f"sent. Whoever starts the session binds it to more hosts, with `--secret {name}@HOST[:PORT]`.",
        )


class Watch:
    """Bytes on their way. Made by `Placeholders.watch`."""

    def __init__(self, placeholders: Placeholders, where: str, host: str, port: int, most: int) -> None:
        self._placeholders = placeholders
        self._place = (where, host, port)
        self._most = most
        self._before = b""

    def look(self, data: bytes) -> None:
        """Look at the next bytes; a placeholder is found also where it began in those before.

        Raises:
            Misplaced: One ends in these.
        """
        seen = self._before + data
        self._placeholders.refuse(seen, *self._place)
        self._before = seen[-(self._most - 1) :]


def _decoded(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return None
