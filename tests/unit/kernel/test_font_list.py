"""The list of fonts that the runtime was built with is there before matplotlib asks for it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from cellwright_kernel.python.figures import _lend_font_list


@pytest.fixture
def matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As far as it is asked: where its cache is."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "share/cellwright/matplotlib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    module = ModuleType("matplotlib")
    module.get_cachedir = lambda: str(tmp_path / "cache")  # type: ignore[attr-defined]
    return module


def test_the_built_list_is_lent(matplotlib: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "share/cellwright/matplotlib/fontlist-v1.json").write_text("{}")
    _lend_font_list(matplotlib)
    assert (tmp_path / "cache/fontlist-v1.json").read_text() == "{}"


def test_a_list_that_is_there_stays(matplotlib: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "share/cellwright/matplotlib/fontlist-v1.json").write_text("{}")
    (tmp_path / "cache/fontlist-v1.json").write_text("own")
    _lend_font_list(matplotlib)
    assert (tmp_path / "cache/fontlist-v1.json").read_text() == "own"


def test_a_cache_that_cannot_be_written_is_no_fault(matplotlib: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "share/cellwright/matplotlib/fontlist-v1.json").write_text("{}")
    (tmp_path / "cache").rmdir()
    _lend_font_list(matplotlib)
    assert not (tmp_path / "cache").exists()
