"""The run on disk: its records, its journal and blobs, and how all of it is read back and checked."""

from cellwright.record.blobs import Blobs
from cellwright.record.folder import find_run, new_run_id, runs_folder
from cellwright.record.journal import Journal, open_run
from cellwright.record.keep import Keep
from cellwright.record.lines import Line, Problem
from cellwright.record.listing import RunSummary, list_runs
from cellwright.record.reader import Run, StoredCell, read_run
from cellwright.record.records import Record
from cellwright.record.run_info import RunInfo, recorded_spec
from cellwright.record.verdict import Verdict, verify

__all__ = [
    "Blobs",
    "Journal",
    "Keep",
    "Line",
    "Problem",
    "Record",
    "Run",
    "RunInfo",
    "RunSummary",
    "StoredCell",
    "Verdict",
    "find_run",
    "list_runs",
    "new_run_id",
    "open_run",
    "read_run",
    "recorded_spec",
    "runs_folder",
    "verify",
]
