"""What models cost: whose word counts, what is not known, and what a table that is none says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL, Usage
from cellwright.prices import Price, Prices, dollars, read_prices

OWN = """
[[price]]
model = "gpt-6-astra"
input = 1
output = 2

[[price]]
model = "gpt-*"
input = 3
output = 4.5
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prices.toml"
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(path))
    return path


def test_default_model_and_the_emulator_have_a_price():
    prices = read_prices()
    assert prices.of(DEFAULT_MODEL) is not None
    emulator = prices.of("emulator")
    assert emulator is not None
    assert emulator.of(Usage(10**6, 10**6)) == 0


def test_shipped_table_says_that_it_has_to_be_checked():
    assert "EXAMPLES" in (Path(read_prices.__code__.co_filename).parent / "prices.toml").read_text().splitlines()[0]
    price = read_prices().of(DEFAULT_MODEL)
    assert price is not None
    assert "nobody checked" in price.words


def test_first_entry_that_fits_counts_and_the_users_come_first(own: Path):
    own.write_text(OWN)
    prices = read_prices()
    costs = {name: prices.of(name) for name in ("gpt-6-astra", "gpt-6-astra-2026", "emulator")}
    assert [price and (price.input, price.output) for price in costs.values()] == [(1, 2), (3, 4.5), (0, 0)]
    assert costs["gpt-6-astra"] is not None
    assert costs["gpt-6-astra"].source == str(own)


@pytest.mark.parametrize(("variable", "folder"), [("XDG_CONFIG_HOME", "cellwright"), ("HOME", ".config/cellwright")])
def test_users_table_is_found_where_configuration_is(
    variable: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("CELLWRIGHT_PRICES", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    assert read_prices().of("mine") is None
    own = tmp_path / folder / "prices.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[price]]\nmodel = "mine"\ninput = 0\noutput = 0')
    mine = read_prices().of("mine")
    assert mine is not None
    assert mine.source == str(own)


def test_table_that_the_documents_show_is_one(own: Path):
    page = (Path(__file__).parents[2] / "docs/loop.md").read_text()
    own.write_text(page.partition("```toml\n")[2].partition("```")[0])
    prices = read_prices()
    shown = [prices.of(name) for name in ("gpt-6-astra-2026", "llama3")]
    assert [price and (price.input, price.output, price.source) for price in shown] == [
        (10, 50, str(own)),
        (0, 0, str(own)),
    ]


def test_model_that_no_entry_fits_is_not_known_and_the_worst_is_the_dearest():
    cheap, dear = Price(model="a", input=1, output=1), Price(model="b", input=2, output=30)
    assert Prices((cheap, dear)).of("c") is None
    assert Prices((cheap, dear)).worst == dear
    assert Prices().worst is None


def test_cached_and_written_tokens_cost_what_they_do_or_as_any_other():
    usage = Usage(1_000_000, 100_000, cached_tokens=600_000, cache_write_tokens=300_000)
    assert Price(model="a", input=10, output=50, cached_input=1, cache_write=12.5).of(usage) == pytest.approx(10.35)
    assert Price(model="a", input=10, output=50).of(usage) == pytest.approx(15)
    wrong = Usage(1_000_000, 0, cached_tokens=5_000_000, cache_write_tokens=5_000_000)
    assert Price(model="a", input=10, output=50, cached_input=1).of(wrong) == pytest.approx(1)


def test_long_request_costs_more_all_of_it():
    price = Price(model="a", input=10, output=50, long_over=1_000, long_input=2, long_output=1.5)
    assert price.of(Usage(1_000, 1_000)) == pytest.approx(0.06)
    assert price.of(Usage(1_001, 1_000)) == pytest.approx(0.02002 + 0.075)


def test_request_may_cost_what_it_does_when_nothing_of_it_is_in_the_cache():
    assert Price(model="a", input=10, output=50, cached_input=1).at_most(1_000, 1_000) == pytest.approx(0.06)
    assert Price(model="a", input=10, output=50, cache_write=12.5).at_most(1_000, 1_000) == pytest.approx(0.0625)
    assert Price(model="a", input=10, output=50, cache_write=5).at_most(1_000, 1_000) == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[price", "is no TOML"),
        pytest.param(f"x = {'9' * 5000}", "is no TOML", id="a number without end"),
        pytest.param(f"x = {'[' * 5000}{']' * 5000}", "is no TOML", id="lists in lists"),
        pytest.param(f'[[price]]\nmodel = "a"\ninput = {"9" * 400}\noutput = 1', "no number", id="beyond a float"),
        ("price = 3", "no list"),
        ("price = [3]", "without the name of a model"),
        ("[[price]]\ninput = 1\noutput = 1", "without the name of a model"),
        ('[[price]]\nmodel = "a"\ninput = 1', "at 'a' no output"),
        ('[[price]]\nmodel = "a"', "no input and no output"),
        ('[[price]]\nmodel = "a"\ninput = 1\noutput = 1\ncached = 1', "what no price has: cached"),
        ('[[price]]\nmodel = "a"\ninput = -1\noutput = 1', "at 'a', for input, no number from 0 on"),
        ('[[price]]\nmodel = "a"\ninput = true\noutput = 1', "no number"),
        ('[[price]]\nmodel = "a"\ninput = nan\noutput = 1', "no number"),
        ('[[price]]\nmodel = "a"\ninput = "1"\noutput = 1', "no number"),
        ('[[price]]\nmodel = "a"\ninput = 1\noutput = 1\nsource = "me"', "what no price has: source"),
    ],
)
def test_table_that_is_none_is_refused_with_its_name_and_why(own: Path, text: str, why: str):
    own.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_prices()
    assert str(own) in str(refused.value)
    assert why in str(refused.value)


def test_table_that_cannot_be_read_is_refused(own: Path):
    with pytest.raises(UsageError, match=r"is not there, and CELLWRIGHT_PRICES names it\. Nothing was done\."):
        read_prices()
    own.mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        read_prices()
    own.rmdir()
    own.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        read_prices()
    own.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(UsageError, match="larger than 1048576 bytes"):
        read_prices()
    own.unlink()
    own.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="larger than 1048576 bytes"):
        read_prices()


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "$0.00"), (0.00004, "$0.0000"), (0.1234, "$0.1234"), (1, "$1.00"), (1234.567, "$1,234.57")],
)
def test_less_than_a_dollar_has_hundredths_of_cents(amount: float, words: str):
    assert dollars(amount) == words
