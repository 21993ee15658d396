from __future__ import annotations

from ipaddress import ip_address

import pytest

from cellwright.egress import AllowList, forwards
from cellwright.egress.rules import authority, is_public, plain_host
from cellwright.errors import UsageError
from cellwright_kernel.wire import Forward


@pytest.mark.parametrize(
    ("entry", "host", "port", "matches"),
    [
        ("example.com", "example.com", 80, True),
        ("example.com", "example.com", 443, True),
        ("example.com", "example.com", 8080, False),
        ("example.com", "www.example.com", 443, False),
        ("example.com", "notexample.com", 443, False),
        ("Example.COM.", "example.com", 443, True),
        ("example.com:8080", "example.com", 8080, True),
        ("example.com:8080", "example.com", 443, False),
        ("*.cdn.net:443", "a.cdn.net", 443, True),
        ("*.cdn.net:443", "a.b.cdn.net", 443, True),
        ("*.cdn.net:443", "cdn.net", 443, False),
        ("*.cdn.net:443", "evilcdn.net", 443, False),
        ("127.0.0.1:8000", "127.0.0.1", 8000, True),
        ("127.0.0.1:8000", "localhost", 8000, False),
        ("localhost:8000", "localhost", 8000, True),
        ("[::1]:8000", "::1", 8000, True),
        ("2001:4860::8888", "2001:4860::8888", 443, True),
        ("[::ffff:10.0.0.1]:8000", "10.0.0.1", 8000, True),
        ("bücher.example", "xn--bcher-kva.example", 443, True),
    ],
)
def test_an_entry_lets_through_what_it_names(entry: str, host: str, port: int, matches: bool) -> None:
    rule = AllowList.of([entry]).rule_for(host, port)
    assert (rule is not None) is matches
    assert rule is None or rule.entry == entry


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("", "every host must be named"),
        ("*", "every host must be named"),
        ("*.", "every host must be named"),
        ("https://example.com", "no scheme and no path"),
        ("example.com/path", "no scheme and no path"),
        ("example.com:0", "no host with a port"),
        ("example.com:65536", "no host with a port"),
        ("example.com:http", "no host with a port"),
        ("exa mple.com", "no host with a port"),
        ("user@example.com", "no host with a port"),
        ("127.1:8000", "no host with a port"),
        ("0x7f000001:8000", "no host with a port"),
        ("a..b", "no host with a port"),
        ("*.*.com", "no host with a port"),
        ("ü" * 80, "it is no host name"),
        ("*.127.0.0.1:8000", "no address that one can connect to"),
        ("0.0.0.0:8000", "no address that one can connect to"),
        ("localhost", "Write the port too, like localhost:8000"),
        ("127.0.0.1", "Write the port too, like 127.0.0.1:8000"),
        ("*.localhost:8000", "Write localhost:8000"),
        ("localhost:80", "Let the service listen on another one"),
        ("localhost:3128", "Let the service listen on another one"),
    ],
)
def test_what_is_no_entry_is_refused_with_the_reason(entry: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        AllowList.of([entry])
    assert why in str(refused.value)
    assert "Nothing was started." in str(refused.value)


def test_loopback_entries_appear_inside() -> None:
    assert forwards(["example.com", "127.0.0.1:8000", "localhost:9000", "[::1]:8000", "10.0.0.1:80"]) == (
        Forward(host="127.0.0.1", port=8000),
        Forward(host="localhost", port=9000),
        Forward(host="::1", port=8000),
    )


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_public_addresses_may_be_connected_to(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    (
        "0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 127.0.0.1 127.8.8.8 169.254.169.254 100.64.0.1 100.100.100.200 "
        "168.63.129.16 192.0.2.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 fe80::1 fc00::1 fd00:ec2::254 "
        "fec0::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1:: "
        "2001::1 2001:db8::1"
    ).split(),
)
def test_no_other_address_may_be_connected_to(address: str) -> None:
    assert not is_public(ip_address(address))


def test_a_private_address_opens_by_its_own_entry_only() -> None:
    allow = AllowList.of(["intranet.example", "10.0.0.5:443"])
    assert allow.allows_address(ip_address("10.0.0.5"), 443)
    assert allow.allows_address(ip_address("::ffff:10.0.0.5"), 443)
    assert not allow.allows_address(ip_address("10.0.0.5"), 80)
    assert not allow.allows_address(ip_address("10.0.0.6"), 443)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Example.com.:8080", ("example.com", 8080)),
        ("example.com", ("example.com", None)),
        ("[::1]:443", ("::1", 443)),
        ("[0:0:0:0:0:0:0:1]", ("::1", None)),
        ("good.example@evil.example", None),
        ("evil.example\\.good.example", None),
        ("%65xample.com:80", None),
        ("example.com:", None),
        (":80", None),
        ("[fe80::1%eth0]:80", None),
        ("2130706433", None),
        ("0177.0.0.1", None),
    ],
)
def test_an_authority_is_read_strictly(text: str, expected: tuple[str, int | None] | None) -> None:
    assert authority(text) == expected


def test_a_host_is_written_one_way() -> None:
    assert plain_host("EXAMPLE.com.") == "example.com"
    assert plain_host("[::FFFF:127.0.0.1]") == "127.0.0.1"
    assert plain_host("a" * 64 + ".com") is None
