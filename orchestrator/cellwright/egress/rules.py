"""Where a sandbox may go: the allow-list, and the addresses that no name may lead to.

Flows in: entries as `--allow` takes them: `HOST[:PORT]`, `*.HOST[:PORT]`, `ADDRESS[:PORT]`, `localhost:PORT`.
Flows out: an `AllowList`, which says for a host and port which entry lets it through, and for an address whether it
may be connected to. Decided here: that a name never opens a private address, because whoever owns the name chooses the
address; such an address must be allowed as what it is. An entry without a port means 80 and 443.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from cellwright.errors import UsageError
from cellwright_kernel.wire import Forward

Address = IPv4Address | IPv6Address

WEB_PORTS: Final = frozenset({80, 443})
LOCALHOST: Final = "localhost"
LOCALHOST_ADDRESSES: Final[tuple[Address, ...]] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
"""What `localhost` means here, without asking anybody."""

_FIRST_FORWARD_PORT: Final = 1024
"""Inside, nobody may listen below it."""
_INSIDE_PROXY_PORT: Final = 3128
"""Where the way out itself listens inside."""
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_CLOUD_METADATA: Final = frozenset({IPv4Address("168.63.129.16")})
"""Azure's host; every other cloud's metadata address is link-local or private already."""


@dataclass(frozen=True)
class Rule:
    """One entry of the allow-list."""

    entry: str
    """As it was given."""
    host: str
    """Lower case; an address in its shortest form; of `*.example.com`, `example.com`."""
    below: bool
    """True for `*.HOST`: every name below it, not the name itself."""
    ports: frozenset[int]
    address: Address | None
    """The address itself, where the entry is one."""

    @property
    def is_loopback(self) -> bool:
        """True when it names a service of this machine itself."""
        return self.host == LOCALHOST or (self.address is not None and self.address.is_loopback)

    def matches(self, host: str, port: int) -> bool:
        """Return whether this entry lets `host`, in its plain form, through."""
        named = host.endswith("." + self.host) if self.below else host == self.host
        return named and port in self.ports


@dataclass(frozen=True)
class AllowList:
    """The entries, in the order they were given."""

    rules: tuple[Rule, ...]

    @classmethod
    def of(cls, entries: Sequence[str], *, option: str = "--allow ") -> AllowList:
        """Read the entries; `option` stands before one in an error.

        Raises:
            UsageError: One is not an entry; the message says why and how to write it.
        """
        try:
            return cls(tuple(_rule(entry) for entry in entries))
        except _NotAnEntry as error:
            raise UsageError(f"{option}{error}") from None

    def __str__(self) -> str:
        return ", ".join(rule.entry for rule in self.rules) or "nothing"

    def rule_for(self, host: str, port: int) -> Rule | None:
        """Return the first entry that lets `host` (as `plain_host` gives it) and `port` through."""
        return next((rule for rule in self.rules if rule.matches(host, port)), None)

    def allows_address(self, address: Address, port: int) -> bool:
        """Return whether `address` may be connected to: public ones, and those that an entry names as addresses."""
        return is_public(address) or any(rule.address == plain(address) and port in rule.ports for rule in self.rules)


def forwards(allow: Sequence[str]) -> tuple[Forward, ...]:
    """Return the allowed loopback services, each of which appears inside on its own loopback port.

    Raises:
        UsageError: An entry is not one.
    """
    return tuple(
        Forward(host=rule.host, port=port)
        for rule in AllowList.of(allow).rules
        if rule.is_loopback
        for port in sorted(rule.ports)
    )


def authority(text: str) -> tuple[str, int | None] | None:
    """Return host (in its plain form) and port of `HOST[:PORT]`, `[IPV6]:PORT`; None when it is not one."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or (port := int(match["port"] or 1)) > 65535 or port == 0:
        return None
    host = plain_host(match["host"])
    return None if host is None else (host, int(match["port"]) if match["port"] else None)


def plain_host(host: str) -> str | None:
    """Return the one way to write a host: lower case, no final dot, addresses shortest; None when it is no host.

    Ways of writing an IPv4 address other than four decimals (`127.1`, `0x7f000001`) are no hosts.
    """
    host = host.removeprefix("[").removesuffix("]").lower().removesuffix(".")
    try:
        return str(plain(ip_address(host)))
    except ValueError:
        pass
    last = host.rpartition(".")[2]
    if not _NAME.fullmatch(host) or last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        return None
    return host


def plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries in itself, where it carries one, else the address."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    """Return whether `address` is one of the internet's, and not of this machine, its network or its cloud."""
    address = plain(address)
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    odd = address.is_multicast or address.is_reserved or address.is_unspecified
    return address.is_global and not odd and address not in _CLOUD_METADATA


def _rule(entry: str) -> Rule:
    text = entry.strip()
    below = text.startswith("*.")
    host, port = _host_and_port(entry, text.removeprefix("*."))
    address = _address(host)
    if address is not None and (below or address.is_unspecified or address.is_multicast):
        raise _not_an_entry(entry, "it is no address that one can connect to")
    rule = Rule(entry=text, host=host, below=below, ports=frozenset({port}) if port else WEB_PORTS, address=address)
    if rule.is_loopback:
        _check_loopback(rule, port)
    return rule


def _host_and_port(entry: str, text: str) -> tuple[str, int | None]:
    if "://" in text or "/" in text:
        raise _not_an_entry(entry, "only the host and its port belong here, no scheme and no path")
    if text in {"", "*"}:
        raise _not_an_entry(entry, "every host must be named")
    if not text.isascii():
        try:
            text = text.encode("idna").decode()
        except UnicodeError as error:
            raise _not_an_entry(entry, "it is no host name") from error
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"  # an IPv6 address without a port
    found = authority(text)
    if found is None:
        raise _not_an_entry(entry, "it is no host with a port from 1 to 65535")
    return found


def _check_loopback(rule: Rule, port: int | None) -> None:
    if port is None:
        raise _not_an_entry(rule.entry, f"which service of this machine? Write the port too, like {rule.entry}:8000")
    if rule.below:
        raise _not_an_entry(rule.entry, f"names below localhost are not told apart. Write localhost:{port}")
    if port < _FIRST_FORWARD_PORT or port == _INSIDE_PROXY_PORT:
        raise _not_an_entry(
            rule.entry,
            f"a service of this machine appears inside on its own port, where {_INSIDE_PROXY_PORT} and all below "
            f"{_FIRST_FORWARD_PORT} are taken. Let the service listen on another one",
        )


def _address(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


class _NotAnEntry(Exception):
    """What was given is no entry."""


def _not_an_entry(entry: str, why: str) -> _NotAnEntry:
    return _NotAnEntry(
        f"{entry[:200]!r}: {why}. Nothing was started. "
        "Entries are HOST[:PORT], *.HOST[:PORT] or ADDRESS[:PORT], like example.com or 127.0.0.1:8000."
    )
