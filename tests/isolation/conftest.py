"""Rows that are of some backends only are not collected for the others."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    elsewhere = [item for item in items if _is_elsewhere(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def _is_elsewhere(item: pytest.Item) -> bool:
    parts = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    row, backend = parts.get("row"), parts.get("backend")
    return isinstance(row, dict) and backend is not None and backend not in row.get("backends", [backend])
