"""Words on the command line that cannot be meant: one sentence before anything starts, never a traceback."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cellwright.cli import main
from cellwright.cli.options import SpecOptions
from cellwright.errors import BadPath, UsageError
from cellwright.sandbox.base import Limits

NOT_UTF8 = os.fsdecode(b"bad\xff")


@pytest.mark.parametrize(
    "words",
    [
        {"files": [Path("a" * 5000)]},
        {"files": [Path("missing")]},
        {"files": [Path("file/below")]},
        {"files": [Path(NOT_UTF8)]},
        {"out": Path("/proc/nope")},
        {"out": Path("file")},
        {"out": Path("file/below")},
        {"out": Path(NOT_UTF8)},
        {"allow": [NOT_UTF8]},
        {"env": [f"A={NOT_UTF8}"]},
        {"env": ["=x"]},
        {"params": ["city"]},
        {"params": ["=x"]},
        {"params": ["a-b=x"]},
        {"params": ["a=x", "a=y"]},
        {"params": [f"a={NOT_UTF8}"]},
        {"params": ["a=" + "x" * 20_000]},
        {"env": ["A-B=x"]},
        {"deadline": float("inf")},
        {"deadline": float("nan")},
        {"deadline": 0.0},
        {"memory": "2"},
        {"memory": "2T"},
        {"memory": ""},
        {"memory": "-1G"},
        {"memory": "100M"},
        {"disk": "1K"},
        {"cpus": 0.0},
        {"cpus": float("nan")},
        {"cpus": float("inf")},
        {"size": "0x0"},
        {"size": "1440"},
        {"size": "-1x-1"},
    ],
)
def test_a_spec_that_cannot_be_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path(NOT_UTF8).touch()
    with pytest.raises(UsageError) as refused:
        SpecOptions(**words).spec()
    assert str(refused.value).endswith(".")
    assert len(str(refused.value)) < 6000  # a path may be long; a value is cut


def test_limits_are_written_with_a_unit() -> None:
    limits = SpecOptions(memory="1.5g", disk="64 MiB", cpus=0.5).spec().limits
    assert limits == Limits(memory_bytes=1536 * 1024**2, tmp_bytes=64 * 1024**2, cpus=0.5)
    assert SpecOptions().spec().limits == Limits()


def test_a_limit_that_is_too_little_names_the_least() -> None:
    with pytest.raises(UsageError) as refused:
        SpecOptions(memory="100M").spec()
    assert str(refused.value) == "--memory 100M: the least is 512M. Nothing was started. Give more."


def test_an_out_folder_is_made_before_anything_starts(tmp_path: Path) -> None:
    assert SpecOptions(out=tmp_path / "a" / "b").spec().out == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def says(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the command; return its exit status."""
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("source", ["/dev/zero", "large"])
def test_code_without_end_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.truncate(os.open("large", os.O_CREAT | os.O_RDWR), 2**40)
    assert says(monkeypatch, "exec", "-f", source) == 2
    assert "has more than 65536 bytes. Nothing ran" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["exec", "1"], ["serve", "--port", "0"], ["runs"]])
@pytest.mark.parametrize("state", ["/proc/nope", "file"])
def test_a_state_folder_that_cannot_be_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setenv("CELLWRIGHT_STATE", state)
    status = says(monkeypatch, *command)
    said = capsys.readouterr()
    assert (status, said.err.count("\n")) in {(1, 1), (0, 0)}, said.err  # no folder, no runs: that is fine


def test_what_a_sandbox_says_in_an_error_moves_no_cursor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ending() -> None:
        raise BadPath("It said: \x1b]0;title\x07\x9b2J\u202e")

    monkeypatch.setattr(main, "_app", lambda: ending)
    assert says(monkeypatch) == 2
    assert capsys.readouterr().err == "cellwright: It said: ␛]0;title␇\\x9b2J\\u202e\n"
