"""A run that gets nowhere is told so, twice, and then stopped; one that makes progress never is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, islice

import pytest

from cellwright.budget import Budget
from cellwright.errors import UsageError
from cellwright.loop import Outcome, run
from cellwright.model.base import Response
from cellwright.record import read_run
from cellwright.record.records import Note
from cellwright.stuck import LONGEST_CYCLE, Patience, Watch
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, call, calls, response, says
from cellwright_kernel.wire import Cell, CellStatus, Image, Output, Source, Text

CLICK = "pyautogui.click(10, 20)"


def cell(
    code: str,
    *outputs: str | bytes,
    screen: str | None = "a",
    status: CellStatus = "ok",
    source: Source = "log",
    language: str = "python",
) -> Cell:
    """Return a cell that began on a screen and showed texts and pictures."""
    shown: list[Output] = [
        Text(text=one, source=source)
        if isinstance(one, str)
        else Image(media_type="image/png", width=1, height=1, data=one)
        for one in outputs
    ]
    return Cell(
        number=1,
        language="javascript" if language == "javascript" else "python",
        code=code,
        status=status,
        started_at="",
        outputs=tuple(shown),
        screen_before=screen,
    )


def failed(code: str, error: str, *, screen: str = "a") -> Cell:
    return cell(code, f"Traceback of {code}\n{error}", status="error", source="error", screen=screen)


def steps(cells: Iterable[Cell], patience: Patience | None = None) -> list[tuple[int, bool]]:
    """Return after which cell something was said, and whether that was the end; one cell a turn."""
    watch, said = Watch(patience or Patience()), []
    for number, one in enumerate(cells, 1):
        watch.saw(one)
        if (verdict := watch.verdict()) is not None:
            said.append((number, verdict.is_end))
    return said


def words(cells: Iterable[Cell], patience: Patience | None = None) -> list[str]:
    watch, said = Watch(patience or Patience()), []
    for one in cells:
        watch.saw(one)
        if (verdict := watch.verdict()) is not None:
            said.append(verdict.words)
    return said


def denied(code: str, reason: str) -> Cell:
    return cell(code, f"A person denied it. {reason}", status="denied", source="notice")


def test_cells_that_a_person_denies_for_another_reason_each_are_no_standstill():
    """Nothing of them ran, so the screen has no reason to be another one."""
    assert steps(denied(f"pyautogui.click({n}, 1)", f"Not {n}.") for n in range(20)) == []
    assert steps(denied(f"log({n})", "No.") for n in range(3)) == [(3, False)]


# the same code


def test_same_cell_is_told_after_3_pushed_after_5_and_stopped_after_8():
    assert steps([cell("log(1)", "1")] * 8) == [(3, False), (5, False), (8, True)]


@pytest.mark.parametrize("patience", [Patience(2, 3, 4), Patience(4, 6, 9), Patience.of(7)])
def test_as_often_as_was_asked_for_exactly(patience: Patience):
    said = steps([cell("log(1)", "1")] * patience.stop_after, patience)
    assert said == [(patience.nudge_after, False), (patience.push_after, False), (patience.stop_after, True)]


@pytest.mark.parametrize("length", range(2, LONGEST_CYCLE + 1))
def test_cycle_of_a_few_cells_counts_by_its_rounds(length: int):
    around = [cell(f"log({n})", str(n)) for n in range(length)]
    said = steps(islice(cycle(around), 8 * length))
    assert said == [(3 * length, False), (5 * length, False), (8 * length, True)]


def test_cycle_of_more_cells_is_none():
    around = [cell(f"x = {n}", str(n)) for n in range(LONGEST_CYCLE + 1)]
    assert steps(islice(cycle(around), 60)) == []


def test_same_code_in_another_language_is_another_cell():
    one, two = cell("f()", "1"), cell("f()", "1", language="javascript")
    assert steps([one, one, two, one, one, two]) == []


def test_spaces_around_code_make_no_difference():
    assert steps([cell("log(1)", "1"), cell("log(1)\n", "1"), cell("  log(1)", "1")]) == [(3, False)]


def test_polling_of_what_changes_is_progress():
    assert steps(cell("log(count())", str(n)) for n in range(50)) == []


def test_polling_of_what_changes_now_and_then_begins_anew():
    shown = ["0%"] * 4 + ["1%"] * 4 + ["2%"] * 4
    assert steps(cell("log(progress())", one) for one in shown) == [(3, False), (7, False), (11, False)]


def test_new_screen_each_time_is_progress():
    """`next page`, again and again."""
    assert steps(cell(CLICK, screen=f"page {n}") for n in range(50)) == []


def test_screen_that_only_blinks_is_no_progress():
    assert [number for number, _ in steps(cell(CLICK, screen=f"caret {n % 2}") for n in range(20))] == [4, 6, 9]


def test_address_of_an_object_is_nothing_new():
    shown = [f"<Page object at 0x7f{n:010x}>" for n in range(8)]
    assert steps(cell("page", one) for one in shown) == [(3, False), (5, False), (8, True)]


def test_same_picture_is_nothing_new_and_another_one_is():
    assert steps([cell("display(shot())", b"same")] * 3) == [(3, False)]
    assert steps(cell("display(shot())", b"%d" % n) for n in range(20)) == []


# the screen


def test_acting_on_a_screen_that_stays_as_it_is_counts_whatever_the_code():
    """What the last cell did is known when the next one begins."""
    clicks = [cell(f"pyautogui.click({n}, {n})") for n in range(9)]
    assert steps(clicks) == [(4, False), (6, False), (9, True)]
    assert words(clicks)[0].startswith(
        "The screen is as it was before the last 3 cells that used pointer, keyboard or page."
    )


@pytest.mark.parametrize(
    "code",
    [
        "pyautogui.doubleClick(1, 2)",
        "pyautogui.hotkey('ctrl', 'v')",
        "await page.click('#b')",
        "await page.get_by_role('button').click()",
        "await page.locator('#a').fill('x')",
        "await page.selectOption('#s', '1')",
        "await page.goto('http://x')",
        "page.keyboard.press('Enter')",
        "page.mouse.wheel(0, 100)",
        "secrets.type('NAME')",
    ],
)
def test_pointer_keyboard_and_page_act(code: str):
    assert steps(cell(f"{code} # {n}") for n in range(4)) == [(4, False)]


@pytest.mark.parametrize(
    "code", ["x = 1", "pyautogui.screenshot()", "screen.shot()", "ui.tree()", "press = 1", "df.fillna(0)"]
)
def test_looking_and_computing_do_not_act(code: str):
    assert steps(cell(f"{code} # {n}") for n in range(30)) == []


def test_looking_between_does_not_make_it_better():
    cells = [one for n in range(4) for one in (cell(f"pyautogui.click({n}, 1)"), cell(f"look() # {n}", b"the same"))]
    assert steps(cells) == [(8, False)], (
        "the first look showed something new, so the click before it counts for nothing"
    )


def test_acting_that_shows_something_new_is_progress():
    assert steps(cell(f"await page.click('#{n}'); log(await read())", f"row {n}") for n in range(30)) == []


def test_screens_that_were_never_taken_are_all_the_same():
    assert steps(cell(f"pyautogui.click({n}, 1)", screen=None) for n in range(5)) == [(4, False)]


def test_what_the_first_cell_did_to_the_screen_is_not_known_and_counts_for_nothing():
    clicks = [cell(f"pyautogui.click({n}, 1)", screen="a" if n else None) for n in range(5)]
    assert steps(clicks) == [(5, False)]


# errors


def test_same_error_counts_whatever_the_code_and_the_frames():
    errors = [failed(f"f({n})", "NameError: name 'f' is not defined") for n in range(8)]
    assert steps(errors) == [(3, False), (5, False), (8, True)]
    assert words(errors)[-1] == (
        "The last 8 cells that failed ended with the same error. The model was told so twice, and went on."
    )


def test_another_error_begins_anew():
    errors = [failed(f"f({n})", f"NameError: name '{n // 2}' is not defined") for n in range(20)]
    assert steps(errors) == []


def test_same_error_on_another_screen_is_progress():
    assert steps(failed(f"f({n})", "TimeoutError", screen=f"page {n}") for n in range(20)) == []


def test_look_at_what_is_known_between_errors_changes_nothing_and_at_what_is_new_it_does():
    known = [one for n in range(3) for one in (failed(f"f({n})", "TimeoutError"), cell(f"look({n})", "same"))]
    assert steps([cell("look()", "same"), *known]) == [(6, False)]
    new = [one for n in range(20) for one in (failed(f"f({n})", "TimeoutError"), cell(f"look({n})", f"{n}"))]
    assert steps(new) == []


@pytest.mark.parametrize("status", ["timeout", "kernel_died", "denied"])
def test_end_without_an_error_text_is_an_error_by_its_status(status: CellStatus):
    assert steps(cell(f"f({n})", status=status) for n in range(3)) == [(3, False)]


# one step at a time


def test_progress_between_lets_it_begin_anew():
    same = [cell("log(1)", "1")] * 7
    assert steps([*same, cell("log(2)", "2"), *same]) == [(3, False), (5, False), (11, False), (13, False)]


def test_many_cells_of_one_turn_are_one_step():
    watch = Watch(Patience())
    for step in ("told", "told", "end"):
        for _ in range(20):
            watch.saw(cell("log(1)", "1"))
        verdict = watch.verdict()
        assert verdict is not None
        assert verdict.is_end is (step == "end")


def test_turn_without_a_cell_is_no_step():
    watch = Watch(Patience())
    for _ in range(8):
        watch.saw(cell("log(1)", "1"))
    assert watch.verdict() is not None
    assert [watch.verdict() for _ in range(5)] == [None] * 5


def test_nothing_happens_before_the_first_cell():
    assert Watch(Patience()).verdict() is None


# a patience


@pytest.mark.parametrize("wrong", [(1, 5, 8), (3, 3, 8), (3, 5, 5), (8, 5, 3), (0, 1, 2)])
def test_patience_has_to_rise(wrong: tuple[int, int, int]):
    with pytest.raises(UsageError, match="does not rise from at least 2"):
        Patience(*wrong)


def test_one_number_is_the_first_step():
    assert Patience.of(3) == Patience()
    assert Patience.of(10) == Patience(10, 12, 15)


# in a run


async def driven(*turns: Response, patience: Patience | None = None) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    budget = Budget(turns=100)
    return await run("Do it.", model=model, patience=patience, budget=budget, backend=FakeBackend()), model


def messages(model: ScriptedModel, request: int) -> list[str]:
    items = [item for item in model.requests[request].history if item.get("role") == "user"]
    return [item["content"][0]["text"] for item in items[1:]]  # type: ignore[index, misc, call-overload]


async def test_run_that_repeats_itself_is_told_twice_and_ends_as_stuck():
    outcome, model = await driven(*(calls("log('same')") for _ in range(9)))
    assert (outcome.status, outcome.turns, outcome.cells, outcome.summary) == ("stuck", 8, 8, None)
    assert outcome.reason == (
        "The same cell was executed 8 times in a row, with the same result each time. The model was told so twice, and went on."
    )
    assert [len(messages(model, request)) for request in range(8)] == [0, 0, 0, 1, 1, 2, 2, 2]
    nudge, push = messages(model, -1)
    assert nudge.startswith(
        "The same cell was executed 3 times in a row, with the same result each time. Repeating it will not"
    )
    assert push.startswith(
        "The same cell was executed 5 times in a row, with the same result each time. It still gets nowhere"
    )
    notes = [r.text for r in read_run(outcome.run_dir).records if isinstance(r, Note) and r.topic == "stuck"]
    assert notes == [nudge, push]


async def test_nudge_stands_behind_the_answers():
    _, model = await driven(*(calls("log('same')") for _ in range(3)), says("I see."))
    *_, answer, message = model.requests[3].history
    assert (answer["type"], message["role"]) == ("function_call_output", "user")


async def test_run_that_heeds_the_nudge_goes_on():
    outcome, _ = await driven(*(calls("log('same')") for _ in range(4)), calls("log('other')"), says("Done."))
    assert outcome.status == "done"


async def test_patience_is_a_term_of_the_run():
    outcome, _ = await driven(*(calls("log('same')") for _ in range(9)), patience=Patience(2, 3, 4))
    assert (outcome.status, outcome.turns) == ("stuck", 4)


async def test_counter_is_polled_as_long_as_it_goes():
    polls = (calls("n = globals().get('n', 0) + 1\nlog(n)") for _ in range(30))
    outcome, _ = await driven(*polls, says("It is 30."))
    assert (outcome.status, outcome.cells) == ("done", 30)


async def test_call_that_was_turned_down_is_not_held_against_the_cells_before():
    bad = [response(call("{"))]
    outcome, _ = await driven(*(calls("log(1)") for _ in range(3)), *bad, calls("log(2)"), says("Done."))
    assert outcome.status == "done"
