"""What a request's record says of its items is made once for each, however often it is sent."""

from __future__ import annotations

import pytest

from cellwright import meanwhile
from cellwright.history import user_item
from cellwright.meanwhile import RequestRecords
from cellwright.model.base import Item
from cellwright.record.stored import Digest, digest_of


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Gets each item that a digest is made of."""
    seen: list[Item] = []

    def counted(item: Item) -> Digest:
        seen.append(item)
        return digest_of(item)

    monkeypatch.setattr(meanwhile, "digest_of", counted)
    return seen


def test_an_item_that_is_sent_again_has_the_digest_it_had(made: list[Item]) -> None:
    digests, items = RequestRecords()._digests, [user_item(word) for word in ("one", "two", "three")]
    for sent in (items[:1], items[:2], items, [items[2], items[0]]):
        assert digests(tuple(sent)) == tuple(map(digest_of, sent))
    assert made == items


def test_an_item_that_is_the_same_by_value_alone_is_another(made: list[Item]) -> None:
    digests = RequestRecords()._digests
    first, second = digests((user_item("one"), user_item("one")))
    assert first == second
    assert len(made) == 2


def test_what_is_no_longer_sent_is_forgotten() -> None:
    records = RequestRecords()
    records._digests(tuple(user_item(f"{number}") for number in range(9)))
    records._digests((user_item("last"),))
    assert len(records._made) == 1
