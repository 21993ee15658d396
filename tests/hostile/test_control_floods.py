"""A million control characters: what is said of them comes soon, and says what is missing."""

import time

import pytest
from tests.unit.kernel.test_outputs import Gathered, message, shown, wrote

pytestmark = pytest.mark.slow

FLOOD = "first\n" + "a\b" * 500_000 + "\nlast"


@pytest.mark.parametrize(
    "flood",
    [
        message("error", ename="E", evalue="why", traceback=["E: " + FLOOD]),
        message("error", ename="E", evalue=FLOOD, traceback=[]),
        message("execute_result", data={"text/plain": FLOOD}, metadata={}, execution_count=1),
        shown({"text/plain": FLOOD}),
    ],
    ids=["frames", "error", "result", "display"],
)
def test_a_text_of_control_characters_takes_no_long_and_says_what_is_left_out(flood):
    began = time.process_time()
    (found,) = Gathered().of(flood)
    assert time.process_time() - began < 2
    assert "first\n" in found.text[:10]
    assert found.text.endswith("\nlast")
    assert found.missing_chars > 400_000
    assert "characters are left out here" in found.text


def test_a_stream_of_control_characters_is_what_a_terminal_shows_and_takes_no_long():
    began = time.process_time()
    pieces = (wrote(FLOOD[at : at + 65_536]) for at in range(0, len(FLOOD), 65_536))
    assert Gathered().texts(*pieces) == ["first\na\nlast"]
    assert time.process_time() - began < 2.5  # 0.5 s measured
