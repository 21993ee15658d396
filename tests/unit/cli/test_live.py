"""What a person sees of a run, and what the command says when it is over."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from cellwright.cli.interrupts import run_to_its_end
from cellwright.cli.live import CodeArriving, Live
from cellwright.loop import run
from cellwright.model.base import Delta, Usage
from cellwright.plain import plain
from cellwright.progress import (
    Arriving,
    AskedAgain,
    Cautioned,
    CellEnded,
    CellStarted,
    CellWrote,
    RunStarted,
    Told,
    TurnArrived,
    TurnStarted,
)
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says
from cellwright_kernel.wire import Cell, Image, OutputEvent, PieceEvent, Text


def shown(*progress) -> str:
    written = io.StringIO()
    live = Live(Console(file=written, width=100))
    for one in progress:
        live(one)
    live.cancelled()
    return written.getvalue()


def output(text: str, source="stdout") -> CellWrote:
    return CellWrote(OutputEvent(output=Text(text=text, source=source)))


def piece(text: str) -> CellWrote:
    return CellWrote(PieceEvent(text=text, source="stdout"))


async def test_page_of_a_run():
    written = io.StringIO()
    live = Live(Console(file=written, width=100))
    model = ScriptedModel([calls("x = 1\nlog('seen')", text="I look."), calls("1 / 0"), says("Done.")])
    outcome = await run("Do it.", model=model, backend=FakeBackend(), on_progress=live)
    live.outcome(outcome)
    page = written.getvalue()
    assert page.splitlines()[0] == f"run {outcome.run_id} · scripted · {outcome.run_dir}"
    for part in (
        "── turn 1 of 20\n",
        "exec_py\n│ x = 1\n│ log('seen')\n",
        "\n  seen\n",
        "100 tokens in, 10 out · 110 in all",
        "ZeroDivisionError",
        "\nDone.\n",
    ):
        assert part in page
    last = f"done: 3 turns, 2 cells, 300 tokens in, 30 out · {outcome.run_dir}\n"
    assert page.endswith(last)


def test_code_is_shown_while_it_arrives():
    arguments = json.dumps({"code": 'print("ä\\n", 1)\nx = "😀"'})
    for size in (1, 2, 3, 7, 1000):
        arriving = CodeArriving()
        pieces = [arriving.feed(arguments[at : at + size]) for at in range(0, len(arguments), size)]
        assert "".join(pieces) == 'print("ä\\n", 1)\nx = "😀"'


@pytest.mark.parametrize("arguments", ["", "{", '{"cod": "x"}', '["x"]', "nonsense"])
def test_arguments_that_are_no_code_show_nothing(arguments: str):
    assert CodeArriving().feed(arguments) == ""


def test_what_came_in_pieces_is_not_shown_twice():
    page = shown(CellStarted("python", "go()"), piece("one\n"), piece("tw"), output("one\ntwo\n"), output("three"))
    assert page.count("one") == 1
    assert "  one\n  two\n  three\n" in page


def test_code_that_did_not_arrive_in_pieces_is_shown_when_it_is_executed():
    assert "python\n│ a = 1\n│ b = 2\n" in shown(CellStarted("python", "a = 1\nb = 2"))


def test_what_was_shown_of_a_response_that_is_asked_for_again_is_said_to_be_thrown_away():
    again = AskedAgain("It broke off.")
    page = shown(TurnStarted(1, 20), again, Arriving(Delta("text", "m", "I loo")), again, again)
    assert page.splitlines()[1:-1] == [
        "It broke off.",
        "I loo",
        "It broke off. What was shown of the response is thrown away.",
        "It broke off.",
    ]


def test_pictures_are_named_by_their_path_in_the_run(tmp_path: Path):
    image = Image(media_type="image/png", width=14, height=10, data=b"x")
    page = shown(RunStarted("r", tmp_path, "m"), CellWrote(OutputEvent(output=image)))
    assert f"[image/png 14x10: {tmp_path / 'blobs' / image.sha256}]" in page


def test_end_of_a_cell_says_its_status():
    cell = Cell(number=7, language="python", code="", status="timeout", started_at="", duration_ms=24100)
    assert "cell 7: timeout in 24.1 s\n" in shown(CellEnded(cell))


def test_nothing_of_a_stranger_reaches_the_terminal_raw():
    evil = "\x1b]0;title\x07\x1b[2J\x9b31m\rfake\x08\u202e"
    page = shown(
        RunStarted("r", Path("/r"), evil),
        TurnStarted(1, 20),
        Arriving(Delta("text", "m", evil)),
        Arriving(Delta("reasoning", "r", evil)),
        Arriving(Delta("arguments", "f", json.dumps({"code": evil}), evil)),
        TurnArrived(1, Usage(), Usage()),
        CellStarted("python", evil),
        piece(evil),
        output(evil, "error"),
    )
    assert not set(page) & set("\x1b\x07\x9b\r\x08\u202e")
    assert "␛]0;title␇" in page


def test_markup_of_a_stranger_is_only_text():
    assert "[bold]x[/bold] [link=http://x]y" in shown(output("[bold]x[/bold] [link=http://x]y"))


def test_plain_keeps_what_is_harmless():
    assert plain("a\tb\nc ä 漢 😀") == "a\tb\nc ä 漢 😀"


def test_work_that_is_not_interrupted_gives_its_result():
    async def work() -> int:
        return 7

    assert run_to_its_end(work()) == 7


def test_what_the_model_is_told_and_what_only_you_are_can_be_told_apart():
    assert shown(Told("2 turns of 8 are left."), Cautioned("The price is not known.")).startswith(
        "told: 2 turns of 8 are left.\nnote: The price is not known.\n"
    )


def test_money_is_shown_where_the_price_is_known():
    assert "2 tokens in, 1 out · 3 in all, $0.1234\n" in shown(TurnArrived(1, Usage(2, 1), Usage(2, 1), 0.1234))
    assert "2 tokens in, 1 out · 3 in all\n" in shown(TurnArrived(1, Usage(2, 1), Usage(2, 1)))
