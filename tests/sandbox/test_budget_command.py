"""A run that spends its budget, on the command line: it sums up, goes on with a larger one, and says what it took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SCRIPT = """\
wrap-up

One of two.
---
```python
x = 41
```
---
```python
log(x + 1)
```
---
expect: 42

It is 42.
"""


def cellwright(*words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cellwright", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "COLUMNS": "300"},
    )
    return done.returncode, done.stdout


def test_spent_run_sums_up_and_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    script = tmp_path / "script.md"
    script.write_text(SCRIPT)
    status, told = cellwright("run", "Count.", "--emulate", str(script), "--max-turns", "1", "--json")
    spent = json.loads(told)
    assert (status, spent["status"], spent["summary"]) == (1, "budget", "One of two.")
    assert (spent["cost"], spent["reason"]) == (0, "The budget was spent (1 turn).")
    status, page = cellwright("resume", spent["run_id"], "--rerun", "all", "--emulate", str(script), "--max-turns", "9")
    assert status == 0
    assert "── turn 3 of 11\n" in page, "two were had, and nine are allowed from now on"
    assert "\nIt is 42.\n" in page
    status, cost = cellwright("show", spent["run_id"], "--cost", "--json")
    ledger = json.loads(cost)
    assert [(turn["turn"], [cell["number"] for cell in turn["cells"]]) for turn in ledger["turns"]] == [
        (1, [1]),
        (2, []),
        (3, [2]),
        (4, []),
    ]
    assert ledger["rebuilt_ms"] > 0
