"""The public names, and that they are what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cellwright


def test_every_public_name_can_be_had() -> None:
    assert {name: getattr(cellwright, name).__name__ for name in cellwright.__all__} == {
        name: name for name in cellwright.__all__
    }


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cellwright.nothing  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_models_library_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, cellwright.cli.main, cellwright.session; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
