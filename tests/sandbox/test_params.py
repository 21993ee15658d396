"""Parameters of a run, in a real sandbox: in both languages, after a restart, and with other values when it is done again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.executing import environment_of, executed_notebook, executed_script

from cellwright.errors import UsageError
from cellwright.record import Run, read_run
from cellwright.replay.export import export
from cellwright.replay.fork import fork
from cellwright.replay.plan import plan_for
from cellwright.replay.replay import Again, replay
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Spec
from cellwright.secrets import NONE
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

ROME = Spec(browser=False, params={"city": "Rome", "n": "3"})
FIXED = """
try:
    params["city"] = "Oslo"
except TypeError as error:
    log(error)
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


async def recorded(runs: Path, *codes: str, spec: Spec = ROME) -> Run:
    async with Session.open(spec, runs=runs) as session:
        for code in codes:
            language = "javascript" if code.startswith("//") else "python"
            await session.execute(code, language=language)  # type: ignore[arg-type]
    return read_run(session.run_dir)


async def test_both_languages_have_them_also_after_a_restart_and_neither_can_change_them(runs: Path) -> None:
    async with Session.open(ROME, runs=runs) as session:
        for _ in range(2):
            said = await session.execute("params['city'], sorted(params)")
            assert said.text.endswith("('Rome', ['city', 'n'])")  # behind what is said of the restart
            said = await session.execute(
                "params.city = 'Oslo'; [params.city, Object.keys(params).sort().join()]", language="javascript"
            )
            assert said.text.endswith("[ 'Rome', 'city,n' ]")
            assert "does not support item assignment" in (await session.execute(FIXED)).text
            await session.execute("params = 'my own'; params")
            await session.restart("python")
            await session.restart("javascript")
    assert read_run(session.run_dir).info.spec["params"] == {"city": "Rome", "n": "3"}


async def test_a_session_without_any_has_no_such_name(runs: Path) -> None:
    async with Session.open(Spec(browser=False), runs=runs) as session:
        assert "NameError" in (await session.execute("params")).text
        assert (await session.execute("typeof params", language="javascript")).text == "'undefined'"


@pytest.mark.parametrize(("params", "is_there"), [({"city": "Rome"}, "Rome"), ({}, "None")])
async def test_a_variable_of_the_callers_does_not_take_their_place(
    runs: Path, params: dict[str, str], is_there: str
) -> None:
    spec = Spec(browser=False, params=params, env={"CELLWRIGHT_PARAMS": "junk"})
    async with Session.open(spec, runs=runs) as session:
        assert (await session.execute("log(globals().get('params', {}).get('city'))")).text == is_there


async def test_with_another_value_what_it_changes_is_the_same_and_what_it_should_not_is_told(runs: Path) -> None:
    run = await recorded(
        runs,
        "log('begins')",
        "log('hello', params['city']); print('two lines of', params['city'])",
        "// the other language\nconsole.log(`ciao ${params.city}`)",
        "from PIL import Image\ndisplay(Image.new('RGB', (80, 80), 'red' if params['city'] == 'Rome' else 'blue'))",
        "log(len(params['city'] * 2))",
        "log(len(params['city']) + int(params['n']))",
    )
    again = await replay(run, Again(params={"city": "Oslo"}), runs=runs)
    assert [cell.verdict for cell in again.cells] == ["same"] * 6
    (note,) = again.cells[3].notes
    assert note.startswith("Picture 1 differs: 80x80 at 0,0.")
    assert note.endswith("a parameter has another value, and a picture does not say what comes of that.")
    own = read_run(again.folder)
    assert own.info.spec["params"] == {"city": "Oslo", "n": "3"}
    assert own.cells[1].text == "hello Oslo\ntwo lines of Oslo\n"
    longer = await replay(run, Again(params={"city": "Paris", "n": "3"}, keep_going=True), runs=runs)
    assert [cell.number for cell in longer.cells if cell.verdict != "same"] == [5, 6]
    assert longer.params == {"city": "Paris", "n": "3"}
    # a replay of the replay has its values
    assert (await replay(own, Again(), runs=runs)).divergence is None


async def test_a_name_that_is_no_parameter_is_refused(runs: Path) -> None:
    run = await recorded(runs, "1")
    with pytest.raises(
        UsageError, match=r"--set town: the run has no such parameter\. Nothing ran\. It has: city, n\."
    ):
        await replay(run, Again(params={"town": "x"}), runs=runs)
    with pytest.raises(UsageError, match=r"--set: .*Nothing ran"):
        await replay(run, Again(params={"city": "a\0b"}), runs=runs)


async def test_the_command_says_that_a_value_was_set(runs: Path) -> None:
    run = await recorded(runs, "log(params['city'])", "log(len(params['city']))")

    def said(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "cellwright", "replay", str(run.folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    status, text = said("--set", "city=Oslo")
    assert (status, "same: 2 cells as in the record, with city set to 'Oslo' · " in text) == (0, True)
    status, text = said("--set", "city=Paris")
    assert (status, "differs: first at cell 2" in text, ", with city set to 'Paris' · " in text) == (1, True, True)
    status, text = said("--set", "city=Paris", "--json")
    assert (status, json.loads(text)["set"], json.loads(text)["divergence"]) == (1, {"city": "Paris"}, 2)


async def test_what_is_taken_up_again_or_forked_has_them(runs: Path) -> None:
    run = await recorded(runs, "where = params['city']")
    folder = fork(run, 1, secrets=NONE, driver="cli", runs=runs)
    async with resume(folder, plan_for(read_run(folder), "safe"), Given()) as resumed:
        assert (await resumed.session.execute("where, params['city']")).text == "('Rome', 'Rome')"


async def test_notebook_and_script_have_them_at_the_top(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Spec(browser=False, params={"city": "Rome", "id": "7"})
    run = await recorded(
        runs, "log('hello', params['city'], id(1) > 0)", "// js\nconsole.log(params.city, params.id)", spec=spec
    )
    for form in ("ipynb", "py"):
        with (tmp_path / f"run.{form}").open("wb") as file:
            export(run, form, file)  # type: ignore[arg-type]
    environment = environment_of(tmp_path, "")
    done = await executed_script(tmp_path / "run.py", environment)
    assert (done.status, done.said) == (0, "hello Rome True\nRome 7\n"), done.errors
    done = await executed_script(tmp_path / "run.py", environment, "--set", "city=Oslo", "--set=id=8")
    assert (done.status, done.said) == (0, "hello Oslo True\nOslo 8\n"), done.errors
    done = await executed_script(tmp_path / "run.py", environment, "--set", "town=Oslo")
    assert (done.status, done.said, "It has: city, id." in done.errors) == (2, "", True)
    file = tmp_path / "run.ipynb"
    book = json.loads(file.read_text())
    (parameters,) = [cell for cell in book["cells"] if cell["metadata"].get("tags") == ["parameters"]]
    place = book["cells"].index(parameters) + 1
    injected = {
        **parameters,
        "id": "injected",
        "metadata": {"tags": ["injected-parameters"]},
        "source": "city = 'Oslo'",
    }
    book["cells"].insert(place, injected)  # as papermill does
    file.write_text(json.dumps(book))
    executed = await executed_notebook(file, environment, monkeypatch)
    texts = ["".join(output.text for output in cell.outputs) for cell in executed.cells if cell.cell_type == "code"]
    assert texts[-2:] == ["hello Oslo True\n", "Oslo 7\n"]
