"""What a model is told: only what applies, in files that can be replaced, and nothing that means nothing."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cellwright.asking import Presets
from cellwright.cli import main
from cellwright.errors import UsageError
from cellwright.loop import run
from cellwright.model.tools import instructions_for, tools_for
from cellwright.people import People
from cellwright.prompts.templates import NAMES, check_prompts, filled, read_prompts
from cellwright.sandbox.base import Spec
from cellwright.terms import Sending
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, says

SIZE = {"width": 1440, "height": 1000, "page_height": 900}
FOREIGN = {
    "python": ("exec_js", "javascript", "both languages", "node", "await screen", "console.log"),
    "javascript": ("exec_py", "python", "both languages", "pyautogui", "pandas", "int(params"),
}
"""Words of the other language, by the only one that is offered."""
OF_BROWSER = ("chromium", "browser", "playwright", "page")


def told(languages: tuple[str, ...], *, browser: bool) -> str:
    """Return all words that go with a request, in small letters, of a session that has all else."""
    more: dict[str, Any] = {"secrets": {"A": ("b.test",)}, "params": {"city": "Rome"}, "browser": browser}
    said = instructions_for(
        ["f.txt"], ["a.test"], languages=languages, pictures=True, people=True, result_schema={}, **more
    )  # type: ignore[arg-type]
    tools = tools_for(languages, browser=browser, **SIZE)  # type: ignore[arg-type]
    return "\n".join([said, *(str(tool["description"]) for tool in tools)]).lower()


@pytest.mark.parametrize(("language", "browser"), list(product(FOREIGN, (True, False))))
def test_no_word_of_a_language_that_is_not_offered_is_sent(language: str, browser: bool) -> None:
    said = told((language,), browser=browser)
    assert [word for word in FOREIGN[language] if word in said] == []
    assert ("playwright" in said) is browser


@pytest.mark.parametrize("languages", [("python",), ("javascript",), ("python", "javascript")])
def test_no_word_of_a_browser_is_sent_where_there_is_none(languages: tuple[str, ...]) -> None:
    said = told(languages, browser=False)
    assert [word for word in OF_BROWSER if word in said] == []


def test_every_combination_is_laid_out_and_has_no_mark_left() -> None:
    for languages, browser in product([("python",), ("javascript",), ("python", "javascript")], (True, False)):
        said = told(languages, browser=browser)
        assert not any(mark in said for mark in ("<!--", "-->", "\n\n\n", " \n"))
        assert "{width}" not in said
    assert instructions_for([], []).endswith("Your working folder is empty. No host can be reached over the network.")


MEANT = {
    "a<!-- if browser -->b<!-- end -->c": "abc",
    "a<!-- if not browser -->b<!-- end -->c": "ac",
    "<!-- if browser python -->b<!-- end --><!-- if browser not python -->c<!-- end -->": "b",
    "<!-- if python --><!-- if javascript -->a<!-- end -->b<!-- end -->": "b",
    "a\n<!-- a word to who reads the file\n on two lines -->\nb": "a\nb",
    "a\n<!-- if browser -->\nb\n<!-- end -->\nc": "a\nb\nc",
    "{width}x{height}, {x, y}, { role: 'a' }, {{width}}": "7x8, {x, y}, { role: 'a' }, {width}",
}


@pytest.mark.parametrize("text", MEANT)
def test_a_file_says(text: str) -> None:
    assert filled(text, "exec_py.md", facts={"browser", "python"}, values={"width": 7, "height": 8}) == MEANT[text]


def test_a_value_is_never_read_again() -> None:
    said = filled("{files}|", "system.md", facts=(), values={"files": "{allow}<!-- if browser -->\n\n\n\n "})
    assert said == "{allow}<!-- if browser -->\n\n\n\n |"


WRONG = {
    "{widht}": r"system\.md names a value \{widht\}",
    "<!-- if not browser -->{widht}<!-- end -->": r"names a value \{widht\}",
    "<!-- if brwoser -->a<!-- end -->": "asks whether 'brwoser'",
    "<!-- if browser -->a": "has an `if` without an `end`",
    "a<!-- end -->": "has an `end` without an `if`",
    "{width}": r"names a value \{width\}",
}


@pytest.mark.parametrize("text", WRONG)
async def test_what_means_nothing_is_refused_before_anything_starts(text: str) -> None:
    backend = FakeBackend()
    with pytest.raises(UsageError, match=WRONG[text]):
        await run("Do it.", model=ScriptedModel([]), backend=backend, sending=Sending(prompts={"system.md": text}))
    assert backend.made == []


async def test_a_file_takes_the_place_of_ours_and_is_sent(tmp_path: Path) -> None:
    (tmp_path / "system.md").write_text("Be brief. {params}\n")
    (tmp_path / "exec_js.md").write_text("")
    given = read_prompts(tmp_path)
    assert sorted(given) == ["exec_js.md", "system.md"]
    model = ScriptedModel([says("Done.")])
    spec = Spec(params={"city": "Rome"})
    await run("Do it.", model=model, spec=spec, backend=FakeBackend(), sending=Sending(prompts=given))
    (request,) = model.requests
    assert request.instructions == 'Be brief. city = "Rome"'
    assert [len(str(tool["description"])) > 100 for tool in request.tools] == [True, False]


def test_a_folder_without_prompts_and_one_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no file of prompts in"):
        read_prompts(tmp_path)
    (tmp_path / "system.md").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        read_prompts(tmp_path)
    (tmp_path / "system.md").write_text("x" * 300_000)
    with pytest.raises(UsageError, match="300000 bytes"):
        read_prompts(tmp_path)


def test_our_own_files_mean_something_whatever_is_so() -> None:
    folder = Path(filled.__code__.co_filename).parent
    assert sorted(path.name for path in folder.glob("*.md")) == sorted(NAMES)
    check_prompts({name: (folder / name).read_text() for name in NAMES})


def shown(*words: str) -> str:
    result = CliRunner().invoke(main._app(), ["prompt", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
async def test_the_command_shows_what_a_run_with_the_same_options_sends(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "object"}')
    words = [
        "--lang",
        "py",
        "--no-browser",
        "--size",
        "800x600",
        "--param",
        "city=Rome",
        "--allow",
        "a.test",
        "--secret",
        "KEY@a.test",
    ]
    sent = json.loads(shown("--json", "--schema", str(tmp_path / "schema.json"), *words))
    said = shown("--schema", str(tmp_path / "schema.json"), *words)
    assert sent["instructions"] in said
    assert [tool["name"] for tool in sent["tools"]] == ["exec_py"]
    assert sent["tools"][0]["description"] in said
    for word in ('city = "Rome"', "KEY (for a.test)", "Hosts that can be reached: a.test.", '{"type": "object"}'):
        assert word in sent["instructions"]
    assert "800x600" in sent["tools"][0]["description"]

    model = ScriptedModel([says("Done.")])
    await run("Do it.", model=model, backend=FakeBackend())
    assert json.loads(shown("--json"))["instructions"] == model.requests[0].instructions
    assert json.loads(shown("--json"))["tools"] == list(model.requests[0].tools)


@pytest.mark.slow
async def test_the_command_shows_what_a_run_sends_whose_questions_have_an_answer() -> None:
    model = ScriptedModel([says("Done.")])
    await run("Do it.", model=model, backend=FakeBackend(), people=People(asking=Presets(["Yes."])))
    sent = json.loads(shown("--json", "--answer", "Yes."))
    assert sent == {"instructions": model.requests[0].instructions, "tools": list(model.requests[0].tools)}
    assert [tool["name"] for tool in sent["tools"]] == ["exec_py", "exec_js", "ask_user"]
    assert "── tool ask_user\n\nAsk the user one question" in shown("--answer", "Yes.")


@pytest.mark.slow
def test_the_command_shows_ask_user_where_somebody_sits_at_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for is_there in (True, False):
        monkeypatch.setattr("cellwright.cli.at_terminal.is_there", lambda is_there=is_there: is_there)
        names.append([tool["name"] for tool in json.loads(shown("--json"))["tools"]])
    assert names == [["exec_py", "exec_js", "ask_user"], ["exec_py", "exec_js"]]
