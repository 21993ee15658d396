"""The public names, and that they are what they say."""

from __future__ import annotations

import pytest

import cellwright


def test_every_public_name_can_be_had() -> None:
    assert {name: getattr(cellwright, name).__name__ for name in cellwright.__all__} == {
        name: name for name in cellwright.__all__
    }


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cellwright.nothing  # type: ignore[attr-defined]
