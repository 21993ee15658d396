"""Rows that are of some backends only are not collected for the others; root's tests run beside those of an ordinary user."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.isolation.ordinary_user import Suite, begun

AS_ANOTHER = "test_what_holds_for_root_holds_for_an_ordinary_user"


@pytest.fixture(scope="session", autouse=True)
def as_ordinary_user(request: pytest.FixtureRequest) -> Iterator[Suite | None]:
    """Begin with the tests of the ordinary user before the others, which are done meanwhile: most of both is waiting."""
    if os.getuid() != 0 or all(item.name != AS_ANOTHER for item in request.session.items):
        yield None
        return
    with begun() as suite:
        yield suite


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    elsewhere = [item for item in items if _is_elsewhere(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def _is_elsewhere(item: pytest.Item) -> bool:
    parts = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    row, backend = parts.get("row"), parts.get("backend")
    return isinstance(row, dict) and backend is not None and backend not in row.get("backends", [backend])
