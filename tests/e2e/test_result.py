"""A result with a shape, by the command line, in a real sandbox: what does not hold goes back to the model, and the run is resumed so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SCHEMA = {"type": "object", "required": ["total"], "properties": {"total": {"type": "integer"}}}
BEGINS = """\
```python
log(sum([1, 2, 3]))
```
---
expect: 6
It is six.
---
{"total": 6}
"""
GOES_ON = """---
```python
is_checked = True
```
---
{"total": 6}
"""


def cellwright(folder: Path, *words: str) -> tuple[int, Any, str]:
    """Return status, JSON and what stands on stderr."""
    command = [sys.executable, "-m", "cellwright", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_result_is_printed_once_it_has_its_shape_and_is_verified(tmp_path: Path) -> None:
    (tmp_path / "begins.md").write_text(BEGINS)
    (tmp_path / "whole.md").write_text(BEGINS + GOES_ON)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "check.py").write_text("globals().get('is_checked', False)")
    run = ("run", "Add them up.", "--lang", "py", "--no-browser")
    checks = ("--schema", "schema.json", "--verify", "grep -q total", "--verify-cell", "check.py")
    status, outcome, _ = cellwright(tmp_path, *run, *checks, "--emulate", "begins.md")
    assert (status, outcome["status"]) == (1, "failed"), "the script was over when it was to go on"
    status, outcome, said = cellwright(tmp_path, "resume", outcome["run_id"], "--emulate", "whole.md")
    assert (status, outcome["status"], outcome["result"], outcome["summary"]) == (
        0,
        "done",
        {"total": 6},
        '{"total": 6}',
    )
    assert "the run was verified by grep -q total; it is not this time: --verify COMMAND does." in said
