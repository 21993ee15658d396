"""The same runs as in the unit tests of the record, but on a real disk."""

from tests.unit.record.conftest import cell, closed_run, fill, info, open_run, small_run, with_journal

__all__ = ["cell", "closed_run", "fill", "info", "open_run", "small_run", "with_journal"]
