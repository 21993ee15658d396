"""What the documents list is what the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from cellwright import errors
from cellwright.cli import main
from cellwright.cli.interrupts import INTERRUPTED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "command_line.md").read_text()


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its first two rows."""
    lines = PAGE.partition(f"## {heading}\n")[2].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def test_every_exit_status_has_its_row() -> None:
    ours = {
        error.exit_status
        for error in vars(errors).values()
        if isinstance(error, type) and hasattr(error, "exit_status")
    }
    assert {int(row[0]) for row in table("Exit statuses")} == ours | {0, INTERRUPTED}


def test_help_of_exec_says_what_its_exit_statuses_mean() -> None:
    said = " ".join(CliRunner().invoke(main._app(), ["exec", "--help"]).stdout.split())
    assert (
        "Exit status: 0 when the cell ended ok; 1 when it ended otherwise, by an error of the code, say; 2 used wrongly; 3 this "
        "machine is missing something; 130 Ctrl-C." in said
    )


def test_every_environment_variable_that_is_read_outside_has_its_row() -> None:
    read = {
        name
        for file in (ROOT / "orchestrator").rglob("*.py")
        for name in re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', file.read_text())
    }
    told = {name for row in table("Environment variables") for name in re.findall(r"`([A-Z_]+)`", row[0])}
    assert told - read == {"OPENAI_EXAMPLE_CODE_EXECUTION_URL", "OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN"}
    assert read - told == set()


def test_prose_is_wrapped_so_that_it_can_be_read_and_compared() -> None:
    """Tables and what stands in fences apart."""
    long = [
        f"{file.name}: {line}"
        for file in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
        for line in re.sub(r"^```.*?^```", "", file.read_text(), flags=re.DOTALL | re.MULTILINE).splitlines()
        if len(line) > 120 and not line.startswith("|")
    ]
    assert long == []


def test_whatever_shows_a_promise_of_security_is_there() -> None:
    promised = _last_columns("What is promised")
    last_columns = promised + _last_columns("What each backend stops")
    files = {name for column in last_columns for name in re.findall(r"`(\S+)`", column)}
    assert [name for name in files if not (ROOT / "tests" / name).is_file()] == []
    rows = (ROOT / "tests/isolation/probes.jsonl").read_text().splitlines()
    kinds = {json.loads(row)["kind"] for row in rows}
    named = {word.strip() for column in promised for word in column.split(",") if "`" not in word}
    assert named - {"with version 1"} == kinds


def _last_columns(title: str) -> list[str]:
    section = (ROOT / "SECURITY.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [line.strip("|").split("|")[-1] for line in section.splitlines() if line.startswith("| ")][1:]
