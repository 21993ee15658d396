"""`cellwright sessions`, and what commands say where no service runs. The service is a real one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.unit.cli.test_service import TOKEN, open_session, says, service, serving

from cellwright.cli.service import announced

__all__ = ["says", "service"]  # fixtures


def test_sessions_are_listed_with_their_cells(service, says, monkeypatch, capsys) -> None:
    monkeypatch.setenv("CELLWRIGHT_URL", service)
    open_session(service, "one")
    assert says("exec", "--session", "two", "log(1)") == 0
    capsys.readouterr()
    assert says("sessions") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["session", "age", "cells", "state", "run"]
    told = sorted(re.sub(r"\b\d s\b", "N s", re.sub(r"\S+$", "RUN", re.sub(" +", " ", line))) for line in lines)
    assert told == ["one N s 0 idle for N s RUN", "two N s 1 idle for N s RUN"]
    assert says("sessions", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert sorted((session["session_id"], session["cells"], session["url"]) for session in listed) == [
        ("one", 0, service),
        ("two", 1, service),
    ]
    assert [session["opened_at"][-1] for session in listed] == ["Z", "Z"]


@pytest.mark.slow
def test_of_several_services_each_session_names_its_own(service, says, monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv("CELLWRIGHT_TOKEN", TOKEN)
    with serving(tmp_path / "others") as other, announced(service), announced(other):
        assert says("sessions") == 0
        assert capsys.readouterr().out.startswith("No session is open at http://127.0.0.1:")
        open_session(service, "one")
        open_session(other, "two")
        assert says("sessions") == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["session", "age", "cells", "state", "service", "run"]
    assert {(line.split()[0], line.split()[-2]) for line in lines} == {("one", service), ("two", other)}


@pytest.mark.parametrize(
    ("words", "otherwise"),
    [
        (("sessions",), "Nothing is open. Start it."),
        (("attach", "one"), "Nothing was attached. Start it, and execute a cell in the session."),
        (
            ("exec", "--session", "one", "1"),
            "Nothing ran. Start it, or leave --session out to open a session for this one cell.",
        ),
    ],
)
def test_without_a_service_each_command_says_what_to_do(says, capsys, words, otherwise) -> None:
    assert says(*words) == 2
    assert capsys.readouterr().err == (
        "cellwright: No `cellwright serve` of this user is running. Its sessions live as long as it does. "
        f"{otherwise}\n"
    )
