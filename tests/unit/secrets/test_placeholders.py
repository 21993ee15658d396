"""No division of what is sent hides a placeholder from the proxy, and what is none is let through."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.egress.placeholders import Misplaced, Placeholders
from cellwright.errors import UsageError
from cellwright.pool import Pool
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.secrets import Secrets
from cellwright.testing.fake_sandbox import FakeBackend

SECRETS = Secrets(
    {"KEY": "hunter2-value", "OTHER": "another value"}, {"KEY": ("example.com",), "OTHER": ("other.org",)}
)
PLACEHOLDERS = Placeholders(SECRETS)
KEY, OTHER = (SECRETS.placeholders[name].encode() for name in ("KEY", "OTHER"))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=80), min_size=2, max_size=3),
    st.lists(st.integers(0, 300), max_size=20),
    st.sampled_from([KEY, OTHER, KEY.lower(), OTHER.upper()]),
)
def test_a_placeholder_is_found_in_whatever_pieces_it_comes(
    around: list[bytes], cuts: list[int], placeholder: bytes
) -> None:
    data = placeholder.join(around)
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    pieces = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    sent, refused = let_through(pieces)
    assert placeholder.lower() not in sent.lower()
    assert refused in {"KEY", "OTHER"}


def let_through(pieces: list[bytes]) -> tuple[bytes, str | None]:
    """What is sent of the pieces, and for which secret the rest is refused."""
    watch, sent = PLACEHOLDERS.watch("the body", "evil.org", 80), b""
    for piece in pieces:
        try:
            watch.look(piece)
        except Misplaced as misplaced:
            return sent, misplaced.names[0]
        sent += piece
    return sent, None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(KEY[:-1]), st.just(KEY[1:])), max_size=10))
def test_what_is_no_placeholder_is_let_through(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert let_through(pieces) == (data, None) or KEY.lower() in data.lower()


def test_two_secrets_in_one_header_must_both_be_bound_to_its_host() -> None:
    assert PLACEHOLDERS.filled([(b"A", b"x " + KEY)], "example.com", 443) == ([(b"A", b"x hunter2-value")], ("KEY",))
    with pytest.raises(Misplaced, match=r"The secret OTHER is bound to other\.org only"):
        PLACEHOLDERS.filled([(b"A", KEY + b" " + OTHER)], "example.com", 443)
    with pytest.raises(
        Misplaced, match=r"The secret KEY is bound to example\.com only, and a request to example\.com:8080"
    ):
        PLACEHOLDERS.filled([(b"A", KEY)], "example.com", 8080)
    assert PLACEHOLDERS.filled([(b"A", b"plain")], "evil.org", 80) == ([(b"A", b"plain")], ())


async def test_the_sessions_of_a_service_have_its_secrets(tmp_path: Path) -> None:
    spec = Spec(secrets=(SecretSpec(name="KEY"),))
    async with Pool(spec, backend=FakeBackend(), runs=tmp_path, secrets={"KEY": "hunter2-value"}) as pool:
        session = await pool.session("one", driver="gateway")
        assert (await session.execute("log('hunter2-' + 'value')")).text == "[secret KEY]"
    with pytest.raises(UsageError, match=r"The secret KEY has no value"):
        Pool(spec, backend=FakeBackend())
