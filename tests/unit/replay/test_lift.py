"""Literals of a run's cells, made parameters when it is exported."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable

import pytest
from tests.unit.replay.conftest import RUN_ID, add_cell
from tests.unit.replay.exported import written
from typer.testing import CliRunner

from cellwright.cli import main
from cellwright.errors import UsageError
from cellwright.record import Journal, Run
from cellwright.replay.lift import Lifted, lift

Made = Callable[..., Run]


def of_cells(made: Made, *codes: str) -> Run:
    def fill(journal: Journal) -> None:
        for code in codes:
            add_cell(journal, code, language="javascript" if code.startswith("//") else "python")

    return made(fill)


def codes(lifted: Lifted) -> list[str]:
    return [cell.opened.code for cell in lifted.run.stored_cells]


@pytest.mark.parametrize(
    ("code", "becomes"),
    [
        ("go('Rome')", 'go(params["city"])'),
        ("go(\"Rome\", 'Rome')", 'go(params["city"], params["city"])'),
        ("go('Ro' 'me', '''Rome''')", 'go(params["city"], params["city"])'),
        ("go('ä', 'Rome')\nx = {'Rome': 'ü'}['Rome']", 'go(\'ä\', params["city"])\nx = {params["city"]: \'ü\'}[params["city"]]'),
        ("go('Ro'\n   'me', 1)", 'go(params["city"], 1)'),
        ("def f(x='Rome'):\n    'Rome'\n    return x", "def f(x=params[\"city\"]):\n    'Rome'\n    return x"),
        ("await go(to='Rome') # 'Rome'", "await go(to=params[\"city\"]) # 'Rome'"),
        ("match go('Rome'):\n    case 'Rome': 1", "match go(params[\"city\"]):\n    case 'Rome': 1"),
        ("go(f'in {x} Rome', f\"{'Rome'}\", 'Rome')", "go(f'in {x} Rome', f\"{'Rome'}\", params[\"city\"])"),
        ("go('Rome ', b'Rome', 'Rome')", "go('Rome ', b'Rome', params[\"city\"])"),
    ],
)  # fmt: skip
def test_where_python_has_the_literal_the_parameter_stands(made: Made, code: str, becomes: str) -> None:
    assert codes(lift(of_cells(made, code), {"city": "Rome"})) == [becomes]


@pytest.mark.parametrize(
    ("code", "literal", "becomes"),
    [
        ("go(3, 3.0, '3', 13, True)", "3", 'go(int(params["n"]), 3.0, params["n"], 13, True)'),
        ("go(1.5, 1, -1.5)", "1.5", 'go(float(params["n"]), 1, -float(params["n"]))'),
        ("go(0x10, 16)", "16", 'go(int(params["n"]), int(params["n"]))'),
        ("go(1000, 1_000)", "1_000", 'go(int(params["n"]), int(params["n"]))'),
        ("go(1, True)", "1", 'go(int(params["n"]), True)'),
    ],
)
def test_numbers_are_lifted_as_numbers_of_their_kind(made: Made, code: str, literal: str, becomes: str) -> None:
    assert codes(lift(of_cells(made, code), {"n": literal})) == [becomes]


def test_what_is_lifted_where_is_told_and_where_something_is_left(made: Made) -> None:
    run = of_cells(made, "go('Rome', 'Rome')", "1", "go('Rome')", "!echo Rome", "// js\ngo('Rome')", "f'{1} Rome'")
    lifted = lift(run, {"city": "Rome", "one": "1"})
    assert lifted.words("city") == "city: 3 literals lifted, 2 in cell 1, 1 in cell 3."
    assert lifted.words("one") == "one: 1 literal lifted, 1 in cell 2."
    assert lifted.left == (4, 5, 6)
    assert codes(lifted)[3:] == ["!echo Rome", "// js\ngo('Rome')", "f'{1} Rome'"]
    assert lifted.run.info.spec["params"] == {"city": "Rome", "one": "1"}
    assert run.info.spec["params"] == {}


@pytest.mark.parametrize(
    "code", ["go('Rom')", "f'{1}Rome'", "!echo 'Rome'", "// js\ngo('Rome')", "return'Rome' if 1 else("]
)
def test_a_literal_that_stands_nowhere_is_refused(made: Made, code: str) -> None:
    with pytest.raises(UsageError, match="no Python cell has the literal 'Rome'"):
        lift(of_cells(made, code), {"city": "Rome"})


@pytest.mark.parametrize(
    "other",
    [
        "params = {}",
        "def f(params): 1",
        "import x as params",
        "for params in (): 1",
        "def params(): 1",
        "(params := 1)",
        "try: 1\nexcept ValueError as params: 1",
        "import params.own",
        "!echo\nparams = {}",
        "!echo\nimport x as params",
        "match 1:\n    case params: 1",
        "match 1:\n    case [*params]: 1",
        "match 1:\n    case {**params}: 1",
    ],
)
def test_where_params_means_something_else_nothing_is_lifted(made: Made, other: str) -> None:
    run = of_cells(made, "go('Rome')", other)
    with pytest.raises(UsageError, match="Cell 2 gives `params` a meaning of its own"):
        lift(run, {"city": "Rome"})


@pytest.mark.parametrize("literal", ["0x10", "(16)", "16 # x"])
def test_a_number_that_int_does_not_read_is_not_lifted(made: Made, literal: str) -> None:
    with pytest.raises(UsageError, match="no Python cell has the literal"):
        lift(of_cells(made, "go(16)"), {"n": literal})


def test_code_that_cannot_be_compared_stays_and_takes_no_time(made: Made) -> None:
    strange = (f"x = 0x{'f' * 5000}\ngo('Rome')", "def f():1\n" * 6000, "'Rome'," * 8000)
    lifted = lift(of_cells(made, *strange), {"city": "Rome"})
    assert codes(lifted) == [strange[0], strange[1], 'params["city"],' * 8000]


def test_an_argument_of_that_name_or_a_variable_of_javascript_is_no_other_meaning(made: Made) -> None:
    run = of_cells(made, "go('Rome', params={})", "// js\nlet params = 1")
    assert codes(lift(run, {"city": "Rome"}))[0] == 'go(params["city"], params={})'


def test_code_that_would_not_mean_the_same_stays(made: Made) -> None:
    run = of_cells(made, "x = 1 if y else'Rome'", "go('Rome')")
    assert codes(lift(run, {"city": "Rome"})) == ["x = 1 if y else'Rome'", 'go(params["city"])']


def test_a_parameter_of_the_run_takes_literals_of_its_own_value_alone(made: Made) -> None:
    run = lift(of_cells(made, "go('Rome', 'Oslo')"), {"city": "Rome"}).run
    with pytest.raises(UsageError, match="the run has this parameter, with another value"):
        lift(run, {"city": "Oslo"})
    assert codes(lift(run, {"other": "Oslo"})) == ['go(params["city"], params["other"])']


def test_names_that_somebody_made_up_get_into_no_code(made: Made) -> None:
    run = of_cells(made, "1")
    hostile = {'x"]\nimport os #': "1", "a b": "2", "ok": '"\n\\', "list": ["x"], "n": 3}
    run = lift(run, {"one": "1"}).run
    run.info.spec["params"].update(hostile)  # type: ignore[union-attr]
    script = written(run, "py")
    ast.parse(script)
    assert "PARAMS = {\n    'one': '1',\n    'ok': '\"\\n\\\\',\n}" in script
    cells = {cell["id"]: cell["source"] for cell in json.loads(written(run, "ipynb"))["cells"]}
    assert cells["parameters"].splitlines()[1:] == ["one = '1'", "ok = '\"\\n\\\\'"]
    assert 'params={"one": str(one), "ok": str(ok)})' in cells["prepare"]


def test_each_parameter_has_a_variable_of_its_own_in_a_notebook(made: Made) -> None:
    run = lift(of_cells(made, "1"), {"one": "1"}).run
    given = ("id", "id_param", "_x", "_x_param", "__builtins__", "In", "class", "match")
    expected = {name: f"of {name}" for name in given}
    run.info.spec["params"] = dict(expected.items())
    source = {cell["id"]: cell["source"] for cell in json.loads(written(run, "ipynb"))["cells"]}
    said: dict[str, str] = {}
    exec(source["parameters"], said)  # noqa: S102 - ours
    begin = source["prepare"].index("params=") + len("params=")
    assert eval(source["prepare"][begin:-1], said) == expected  # noqa: S307 - ours
    assert {"id_param", "match"} < said.keys()
    assert not {"id", "In", "_x"} & said.keys()


def test_the_page_names_them(made: Made) -> None:
    run = of_cells(made, "go('Rome')")
    assert "parameters" not in written(run, "html")
    assert "<td>parameters</td><td>city = &#x27;Rome&#x27;</td>" in written(lift(run, {"city": "Rome"}).run, "html")


def test_command_tells_what_was_lifted_and_refuses_what_cannot_be(made: Made) -> None:
    run = of_cells(made, "go('Rome')", "// js\ngo('Rome')")
    ask = ["export", str(run.folder), "--out", "-", "--lift", "city=Rome", "--to"]
    done = CliRunner().invoke(main._app(), [*ask, "py"])
    assert done.exit_code == 0
    assert "PARAMS = {\n    'city': 'Rome',\n}" in done.stdout
    assert 'go(params["city"])' in done.stdout
    assert done.stderr.splitlines() == [
        "city: 1 literal lifted, 1 in cell 1.",
        "Left as it is in cell 2: in f-strings, longer texts, JavaScript or IPython's dialect.",
    ]
    refused = CliRunner().invoke(main._app(), [*ask, "html"])
    assert isinstance(refused.exception, UsageError)
    assert RUN_ID not in refused.stdout
