"""Budgets, what a run costs and how it goes on, over real HTTP: the emulator counts tokens, and plays on where a summary came between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from cellwright.budget import Budget
from cellwright.emulator import outputs, turns
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.ledger import ledger_of
from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking
from cellwright.model.base import Usage
from cellwright.model_server import model_at
from cellwright.prices import read_prices
from cellwright.record import read_run
from cellwright.record.records import HistoryShortened, ModelRequest
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIX = "\n---\n".join(f'I do step {n}.\n\n```python\nlog("step " * 2000 + "{n}")\n```' for n in range(6))
SCRIPT = f"wrap-up\n\nSo far, so good.\n---\n{SIX}\n---\nexpect: 5\n\nAll six are done."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulator() -> AsyncIterator[Emulator]:
    """One server for all tests here."""
    async with Emulator(Script.parse("Nothing.")) as running:
        yield running


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "gpt-*"\ninput = 10\noutput = 50')
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(tmp_path / "prices.toml"))


async def driven(emulator: Emulator, budget: Budget) -> Outcome:
    emulator.play(Script.parse(SCRIPT))
    return await run("Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), budget=budget)


async def gone_on(emulator: Emulator, folder: Path, budget: Budget) -> Outcome:
    driving = Driving(model="gpt-x", base_url=emulator.base_url, api_key="k", budget=budget)
    return await resume_by_model(folder, plan_for(read_run(folder), "all"), Given(), driving, backend=FakeBackend())


@pytest.mark.parametrize("limit", [18_000, 22_000, 26_000, 30_000, 36_000])
async def test_tokens_that_the_server_counts_stay_within_the_budget_and_the_summary_is_there(
    emulator: Emulator, limit: int
):
    outcome = await driven(emulator, Budget(turns=50, tokens=limit))
    assert (outcome.status, outcome.summary) == ("budget", "So far, so good.")
    assert 0 < outcome.usage.total_tokens <= limit
    assert outcome.turns >= 2


@pytest.mark.usefixtures("prices")
async def test_money_stays_within_the_budget_and_the_ledger_comes_to_the_same(emulator: Emulator):
    outcome = await driven(emulator, Budget(turns=50, money=0.4))
    ledger = ledger_of(read_run(outcome.run_dir), read_prices())
    assert (outcome.status, outcome.summary) == ("budget", "So far, so good.")
    assert outcome.cost is not None
    assert 0 < outcome.cost <= 0.4
    assert ledger.total.cost == pytest.approx(outcome.cost)
    total = ledger.total
    assert outcome.usage == Usage(
        total.input_tokens, total.output_tokens, total.cached_tokens, total.reasoning_tokens, total.cache_write_tokens
    )


LONG = """
turns:
- {python: "log(1)"}
- {say: "I write much.", python: "log(2)", usage: {output_tokens: 20000}}
- {say: "It is done.", phase: final_answer}
wrap_up: {say: "So far, so good."}
"""


async def test_a_response_that_would_break_the_budget_is_cut_off_and_its_code_does_not_run(emulator: Emulator):
    emulator.play(Script.parse(LONG, form="yaml"))
    outcome = await run(
        "Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), budget=Budget(tokens=20_000)
    )
    asked = [one for one in read_run(outcome.run_dir).records if isinstance(one, ModelRequest)]
    limits = [one.parameters["max_output_tokens"] for one in asked]
    assert (outcome.status, outcome.summary, outcome.cells) == ("budget", "So far, so good.", 1)
    assert outcome.usage.total_tokens <= 20_000
    assert outcome.reason == (
        f"The budget was spent (the last response was cut off at {limits[1]:,} tokens, which was all that it could have beside a summary)."
    )
    emulator.play(Script.parse(LONG, form="yaml"))
    again = await gone_on(emulator, outcome.run_dir, Budget(tokens=200_000))
    assert (again.status, again.cells) == ("done", 1), "what was cut off is asked for again, whole"


@pytest.mark.parametrize("then", ["say: Half an", "python: log(2)"])
@pytest.mark.parametrize("wraps_up", [True, False])
async def test_a_response_that_was_cut_off_and_called_completed_is_no_part_of_a_resumed_run(
    emulator: Emulator, then: str, wraps_up: bool, monkeypatch: pytest.MonkeyPatch
):
    """Such a server does not tell; its count alone does."""
    cut = outputs.within_limit
    monkeypatch.setattr(
        turns,
        "within_limit",
        lambda response, key, most: {**response, "usage": cut(response, key, most)["usage"], "status": "completed"},
    )
    wrap_up = "wrap_up: {say: So far.}" if wraps_up else "wrap_up: {http: {status: 400, times: 9}}"
    script = f"turns:\n- python: log(1)\n- {{{then}, usage: {{output_tokens: 20000}}}}\n{wrap_up}\n"
    emulator.play(Script.parse(script, form="yaml"))
    outcome = await run(
        "Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), budget=Budget(tokens=20_000)
    )
    assert (outcome.status, outcome.summary, outcome.cells) == ("budget", "So far." if wraps_up else None, 1)
    emulator.play(Script.parse("turns:\n- python: log(1)\n- python: log(3)\n- say: Done.\n", form="yaml"))
    again = await gone_on(emulator, outcome.run_dir, Budget(tokens=200_000))
    cells = [cell.code for cell in read_run(outcome.run_dir).cells]
    assert (again.status, again.summary, cells) == ("done", "Done.", ["log(1)", "log(3)"])


async def test_a_server_that_takes_no_limit_is_asked_without_from_then_on():
    script = Script.parse(LONG.replace("20000", "6000"), form="yaml")
    async with Emulator(script, rules=ServerRules(output_limit=False)) as emulator:
        outcome = await run(
            "Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), budget=Budget(tokens=60_000)
        )
        bodies = [body for body in emulator.requests if isinstance(body, dict)]
    assert (outcome.status, outcome.cells) == ("done", 2)
    assert ["max_output_tokens" in body for body in bodies] == [True, False, False, False]


async def test_a_server_that_says_too_long_is_asked_without_the_limit_before_anything_is_left_out(emulator: Emulator):
    emulator.play(Script.parse(LONG.replace('"log(1)"}', '"log(1)", fault: context_too_long x1}'), form="yaml"))
    outcome = await run(
        "Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), budget=Budget(tokens=20_000)
    )
    records = read_run(outcome.run_dir).records
    limits = ["max_output_tokens" in one.parameters for one in records if isinstance(one, ModelRequest)]
    assert (outcome.status, outcome.cells, limits[:3]) == ("budget", 1, [True, False, True])
    assert not any(isinstance(one, HistoryShortened) for one in records)


async def test_a_limit_that_the_user_gave_is_the_users(emulator: Emulator):
    emulator.play(Script.parse(LONG, form="yaml"))
    model = model_at("m", base_url=emulator.base_url, api_key="k", asking=Asking(extra={"max_output_tokens": 900}))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), budget=Budget(tokens=30_000))
    await model.close()
    assert (outcome.status, outcome.cells) == ("failed", 1)
    assert "cut off at its limit of tokens" in (outcome.reason or "")


async def test_estimate_of_the_next_request_is_near_to_what_the_server_counts(emulator: Emulator):
    from cellwright import budget as module

    seen: list[tuple[int, int]] = []

    class Looking(module._Known):
        def learn(self, request, response, used):
            seen.append((self.expected(request), used.input_tokens))
            return super().learn(request, response, used)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_Known", Looking)
        await driven(emulator, Budget())
    assert len(seen) == 7
    for expected, counted in seen[1:]:
        assert abs(expected - counted) <= 0.02 * counted


async def test_run_that_spent_its_budget_goes_on_with_a_larger_one_and_no_step_is_left_out(emulator: Emulator):
    spent = await driven(emulator, Budget(turns=2))
    assert (spent.status, spent.cells, spent.turns) == ("budget", 2, 3)
    again = await gone_on(emulator, spent.run_dir, Budget(turns=2))
    assert (again.status, again.cells) == ("budget", 2)
    outcome = await gone_on(emulator, spent.run_dir, Budget(turns=20))
    assert (outcome.status, outcome.summary, outcome.cells) == ("done", "All six are done.", 2)
    whole = read_run(spent.run_dir)
    assert [cell.opened.code[-3:-2] for cell in whole.stored_cells] == [*"012345"]
    sent = [record.input for record in whole.records if isinstance(record, ModelRequest)]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(sent)), (
        "each request begins with the one before, so that the server finds it in its cache"
    )
