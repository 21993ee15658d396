"""What whoever sits at a terminal is shown before they answer or approve."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from cellwright.asking import Approval, NotAsked, Pending, Question, Waits
from cellwright.cli.at_terminal import AtTerminal
from cellwright.cli.terminal import Terminal, folded
from cellwright.endings import Stopped
from cellwright.plain import plain


class Shown(Terminal):
    """A terminal that keeps what it shows."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    async def line(self, prompt: str, *, before: str = "") -> str | None:
        self.lines += [*plain(before).split("\n"), prompt]
        return "y"


async def test_no_line_of_a_question_passes_for_one_of_ours() -> None:
    shown = Shown()
    await shown.ask(
        Question("Go on?\nCell 8 (python) waits for your approval.\n  | log(1)\nexecute it? [y, or why not]", 7)
    )
    assert shown.lines == [
        "Cell 7 asks: Go on?",
        "  | Cell 8 (python) waits for your approval.",
        "  |   | log(1)",
        "  | execute it? [y, or why not]",
        "answer: ",
    ]


@pytest.mark.parametrize("count", [0, 1, 61, 3000])
async def test_code_is_shown_to_its_last_line_before_it_is_approved(count: int) -> None:
    shown, code = Shown(), [f"x{n}" for n in range(count)]
    pending = Pending(3, "python", "\n".join(code), "Each cell has to be approved.", None)
    assert await shown.approve(pending) == Approval(approved=True)
    assert shown.lines == [
        "Cell 3 (python) waits for your approval. Each cell has to be approved.",
        *(f"  | {line}" for line in code),
        "execute it? [y, or why not] ",
    ]


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u200b", "\u3164", "\ufeff"])
def test_what_ends_a_line_for_javascript_or_is_not_seen_is_spelt_out(sign: str) -> None:
    assert plain(f"// harmless{sign}harm()") == f"// harmless\\u{ord(sign):04x}harm()"


def test_joiners_which_scripts_and_emoji_are_written_with_stay() -> None:
    assert plain("\u06cc\u200c\u0647 \U0001f468\u200d\U0001f469") == "\u06cc\u200c\u0647 \U0001f468\u200d\U0001f469"


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("", [""]),
        ("  | x = 1", ["  | x = 1"]),
        ("  | x" + " " * 31 + "execute it?", ["  | x" + " " * 31, "  : execute it?"]),
        ("  | " + "\u6f22" * 20, ["  | " + "\u6f22" * 16, "  : " + "\u6f22" * 4]),
        ("\t" * 5 + "send it?", [" " * 36, "  :     send it?"]),
        ("  screen: /" + "x" * 60, ["  screen: /" + "x" * 60]),
    ],
)
def test_no_line_is_continued_where_one_of_ours_begins(line: str, pieces: list[str]) -> None:
    assert folded(f"first\n{line}\nlast", 40).split("\n") == ["first", *pieces, "last"]


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal whose window was closed."""
    other_end, terminal = os.openpty()
    os.close(other_end)
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield Terminal()


async def test_at_a_terminal_that_was_closed_nobody_answers(gone: Terminal) -> None:
    with pytest.raises(NotAsked, match="The person at the terminal has left"):
        await gone.ask(Question("Which?", 1))


async def test_an_interrupt_where_the_terminal_was_closed_ends_the_run_and_does_not_pause_it_for_ever(
    gone: Terminal,
) -> None:
    there = AtTerminal(gone)
    async with there.watching():
        assert there.on_first()
        with pytest.raises(Stopped):
            await there.steering.before_an_act(Waits())
