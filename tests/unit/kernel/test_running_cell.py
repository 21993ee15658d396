"""What a cell says of the way out at its end."""

import asyncio

import pytest
from tests.waiting import GUARD_S

from cellwright.testing.clock import FakeClock
from cellwright_kernel import running_cell
from cellwright_kernel.deadline import SystemClock
from cellwright_kernel.lane import Lane
from cellwright_kernel.outputs import NOTHING_SAID, Outputs
from cellwright_kernel.running_cell import RunningCell
from cellwright_kernel.wire import CellStatus, Execute


async def said(status: CellStatus, failure: str, refusals: list[tuple[str, str | None]]) -> list[str]:
    """What a cell that failed, or did not, tells of refusals."""
    cell = RunningCell(Execute(number=1, language="python", code="", deadline_s=9), Outputs(), SystemClock())
    for sentence, host in refusals:
        cell.refused(sentence, host)
    error = {"header": {"msg_type": "error"}, "content": {"ename": "E", "evalue": failure, "traceback": []}}
    if failure:
        cell.take_message({**error, "parent_header": {}, "metadata": {}})
    cell.close(status, 1)
    events = [event for batch in [batch async for batch in cell.events()] for event in batch]
    outputs = [event.output for event in events if event.type == "output"]
    return [output.text for output in outputs if output.source == "notice" and output.text != NOTHING_SAID]


async def test_refusals_are_told_once_each_and_at_most_three():
    refusals = [(f"{host} was refused.", None) for host in "abacadabra"]
    assert await said("error", "it failed", refusals) == ["a was refused.", "b was refused.", "c was refused."]


async def test_what_a_browser_asked_for_is_told_only_if_the_failure_names_it():
    refusals = [("Example.org:443 no.", "Example.org"), ("google.com:443 no.", "google.com")]
    failure = "net::ERR_TUNNEL_CONNECTION_FAILED at https://example.org/"
    assert await said("error", failure, refusals) == ["Example.org:443 no."]
    assert await said("error", "division by zero", refusals) == []


async def test_a_page_that_was_led_to_a_refused_host_tells_of_it_though_the_failure_names_where_it_began():
    failure = "page.goto: net::ERR_TUNNEL_CONNECTION_FAILED at http://127.0.0.1:8000/"
    assert await said("error", failure, [("a.example:443 no.", "a.example")]) == ["a.example:443 no."]


async def test_no_refusal_is_told_where_nothing_failed_or_the_failure_says_it():
    assert await said("ok", "", [("a:80 no.", None)]) == []
    assert await said("error", "Tunnel connection failed: 403 a:80 no.", [("a:80 no.", None)]) == []


async def test_a_page_that_was_refused_is_told_of_though_nothing_failed_and_once():
    cell = RunningCell(Execute(number=1, language="python", code="", deadline_s=9), Outputs(), SystemClock())
    for host in "abab":
        cell.refused_page(f"{host}:80 no.")
    cell.close("ok", 1)
    texts = [event.output.text async for batch in cell.events() for event in batch if event.type == "output"]
    assert texts == [
        f"A page was refused, and the browser shows the refusal in its place: {host}:80 no." for host in "ab"
    ]


async def test_of_a_failure_that_is_told_the_page_is_not_told_again():
    cell = RunningCell(Execute(number=1, language="python", code="", deadline_s=9), Outputs(), SystemClock())
    cell.refused("a:80 no.", None)
    cell.refused_page("a:80 no.")
    cell.close("error", 1)
    texts = [event.output.text async for batch in cell.events() for event in batch if event.type == "output"]
    assert texts == ["a:80 no."]


async def test_a_page_that_chromiums_own_about_a_failure_came_in_the_way_of_says_what_to_wait_for():
    failure = 'Navigation to "http://a/" is interrupted by another navigation to "chrome-error://chromewebdata/"'
    (sentence,) = await said("error", failure, [])
    assert sentence.endswith("await page.wait_for_url('chrome-error://chromewebdata/')")
    assert await said("error", 'interrupted by another navigation to "http://b/"', []) == []


async def test_idle_counts_as_lost_only_once_the_whole_kernel_is_silent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(running_cell, "_LOST_IDLE_S", 0.2)  # more than a busy machine lets a loop wait
    lane = Lane("python", Outputs)
    cell = lane.running = RunningCell(
        Execute(number=2, language="python", code="", deadline_s=9), Outputs(), SystemClock()
    )
    cell.message_id, lane.cells, lane.last_cell = "m2", {"m1": 1, "m2": 2}, 2
    of_a_thread = {"header": {"msg_type": "stream"}, "parent_header": {"msg_id": "m1"}, "metadata": {}, "content": {}}
    cell.take_reply({"content": {"status": "ok"}})
    for _ in range(30):
        lane.take_message(of_a_thread)
        await asyncio.sleep(0.01)
    assert not cell.ended.done()
    async with asyncio.timeout(GUARD_S):
        assert await cell.ended == "finished"


async def test_a_deadline_that_the_outside_holds_twice_runs_on_when_it_has_let_go_twice():
    cell = RunningCell(Execute(number=1, language="python", code="", deadline_s=9), Outputs(), SystemClock())
    said = [(cell.hold(is_held=is_held), cell.ladder._holds) for is_held in (True, True, False, False, False)]
    assert said == [(True, 1), (True, 2), (True, 1), (True, 0), (False, 0)]


@pytest.mark.parametrize(
    ("waited_s", "past_s", "kept"),
    [(4, 3.1, True), (4, 3.3, False), (9, 8.1, True), (9, 8.3, False), (None, 3600, True)],
)
async def test_a_long_text_is_kept_only_as_long_as_the_answer_is_in_time(
    waited_s: float | None, past_s: float, kept: bool
):
    clock = FakeClock(0)
    request = Execute(number=1, language="python", code="", deadline_s=9, waited_s=waited_s)
    cell = RunningCell(request, Outputs(), clock)
    cell.outputs.add({"header": {"msg_type": "stream"}, "content": {"name": "stdout", "text": "x" * 20_000}})
    await clock.advance(9 + past_s)
    cell.close("timeout", 1)
    types = [event.type async for batch in cell.events() for event in batch if event.type != "piece"]
    assert types == [*(["kept"] if kept else []), "output", "closed"]
