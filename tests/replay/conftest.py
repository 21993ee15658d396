"""Runs lie in memory, as those of unit tests do; what a test itself writes is large, and on the disk."""

from tests.unit.conftest import no_run_is_left, states
from tests.unit.replay.conftest import outside

__all__ = ["no_run_is_left", "outside", "states"]
