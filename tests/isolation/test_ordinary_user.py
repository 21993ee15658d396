"""The whole suite once more as an ordinary user, where it was started by root."""

from __future__ import annotations

import os

import pytest
from tests.isolation.ordinary_user import Suite

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(os.getuid() != 0, reason="it is an ordinary user who runs the suite already"),
]


def test_what_holds_for_root_holds_for_an_ordinary_user(as_ordinary_user: Suite) -> None:
    status, said = as_ordinary_user.end()
    assert status == 0, said
    assert " passed" in said, said
