"""Terms on the command line: files are read and checked before anything starts, and what is wrong with them is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.cli import main
from cellwright.cli.term_options import TermOptions
from cellwright.errors import CodeTooLarge, UsageError
from cellwright.history import Pictures
from cellwright.terms import Checks, Sending, TermsGiven, pictures_from, terms_of, terms_record


def applied(**words: Any) -> tuple[Sending, Checks]:
    return TermOptions(**words).given.applied(Sending(), Checks())


def test_without_an_option_all_is_as_usual() -> None:
    assert TermOptions().given == TermsGiven()
    assert applied() == (Sending(), Checks())


def test_what_is_said_is_had(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("Do it.")
    (tmp_path / "schema.json").write_text('{"type": "integer"}')
    (tmp_path / "check.mjs").write_text("check()")
    sending, checks = applied(
        pictures="8:3",
        compact_at=90_000,
        prompts=tmp_path,
        schema=tmp_path / "schema.json",
        verify="true",
        verify_cell=tmp_path / "check.mjs",
    )
    assert sending == Sending(pictures=Pictures(8, 3), compact_at=90_000, prompts={"system.md": "Do it."})
    wanted = {"verify": "true", "verify_cell": "check()", "verify_language": "javascript"}
    assert checks == Checks(result_schema={"type": "integer"}, **wanted)  # type: ignore[arg-type]
    again = terms_of(terms_record(sending, checks))
    assert again == (sending, Checks(result_schema={"type": "integer"}, **{**wanted, "verify": None}))  # type: ignore[arg-type]


def test_a_run_that_goes_on_has_what_is_not_said_again_as_it_was() -> None:
    before = Sending(pictures=None, compact_at=5_000), Checks(verify_cell="1")
    assert TermOptions(pictures="5:1").given.applied(*before) == (Sending(compact_at=5_000), Checks(verify_cell="1"))
    assert TermOptions(compact_at=0).given.applied(*before)[0] == Sending(pictures=None)


@pytest.mark.parametrize(
    "words", ["", "5", "5:", ":1", "5:1:1", "-5:1", "a:b", "1:5", "0:0", "5:0", "5:1 ", "²:1", "All"]
)
def test_pictures_that_cannot_be_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="Nothing was started"):
        pictures_from(words)
    with pytest.raises(UsageError, match="Nothing was started"):
        _ = TermOptions(pictures=words).given


def test_all_pictures_is_a_word_of_its_own() -> None:
    assert pictures_from("all") is None
    assert terms_of(terms_record(Sending(pictures=None), Checks()))[0] == Sending(pictures=None)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no folder": ({"prompts": Path("missing")}, "There is no file of prompts in missing"),
    "no schema": ({"schema": Path("missing.json")}, "missing.json cannot be read"),
    "no JSON": ({"schema": Path("text.py")}, "text.py cannot be read"),
    "a number": ({"schema": Path("number.json")}, "A JSON schema is an object"),
    "no cell": ({"verify_cell": Path("missing.py")}, "missing.py cannot be read"),
    "a folder": ({"verify_cell": Path()}, "cannot be read"),
    "no text": ({"verify_cell": Path("bytes.py")}, "no text in UTF-8"),
    "an empty command": ({"verify": " "}, "--verify is empty"),
}


@pytest.mark.parametrize("title", WRONG)
def test_what_cannot_be_is_refused_in_words(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.py").write_text("check()")
    (tmp_path / "number.json").write_text("7")
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    words, why = WRONG[title]
    with pytest.raises(UsageError, match=why):
        applied(**words)


def test_a_cell_that_is_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text("#" * 70_000)
    with pytest.raises(CodeTooLarge, match="70000 bytes"):
        applied(verify_cell=tmp_path / "check.py")


def test_a_wrong_prompt_ends_the_command_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exec_py.md").write_text("{widht}")
    monkeypatch.setattr("sys.argv", ["cellwright", "run", "Do it.", "--prompts", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert said.err.startswith(
        "cellwright: The prompt exec_py.md names a value {widht}, which means nothing. Nothing was started."
    )


def test_the_record_of_the_usual_terms_says_nothing() -> None:
    said = json.loads(terms_record(Sending(), Checks()).model_dump_json())
    assert said == {"v": 1, "at": said["at"], "type": "terms_set", "prompts": {}}
