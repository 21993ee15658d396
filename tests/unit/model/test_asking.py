"""What a user may choose of a request, what not, and what a server is taken for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellwright.cli.model_options import ModelOptions
from cellwright.errors import UsageError
from cellwright.model.asking import Asking, merged
from cellwright.model.profile import BUILT_IN, built_in, profile_of
from cellwright.model.stored_profiles import path_of, store, stored
from cellwright.model_server import OPENAI, profile_for, profiles_folder


@pytest.mark.parametrize("name", ["input", "model", "stream", "tools", "store", "previous_response_id", "tool_choice"])
def test_field_that_the_loop_needs_cannot_be_chosen(name: str) -> None:
    with pytest.raises(UsageError, match=f"A request's {name} cannot be chosen"):
        Asking(extra={name: 1})


def test_objects_are_merged_and_lists_put_behind_lists() -> None:
    base = {"reasoning": {"effort": "low"}, "include": ["a"], "top_p": 1}
    more = {"reasoning": {"summary": "auto"}, "include": ["a", "b"], "top_p": 0.5, "new": None}
    whole = {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["a", "b"], "top_p": 0.5, "new": None}
    assert merged(base, more) == whole
    assert base == {"reasoning": {"effort": "low"}, "include": ["a"], "top_p": 1}


LACKING = {"chains": (True, "--chain"), "custom_tools": (True, "--custom-tools"), "compact_threshold": (9, "--compact")}


@pytest.mark.parametrize("what", LACKING)
def test_what_a_server_cannot_do_is_refused_by_its_option(what: str) -> None:
    value, option = LACKING[what]
    with pytest.raises(UsageError, match=option):
        Asking(**{what: value}).must_fit(BUILT_IN["ollama"])
    Asking(**{what: value}).must_fit(BUILT_IN["openai"])


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_rate_of_nothing_is_used_wrongly(rate: float) -> None:
    with pytest.raises(UsageError, match="nothing is ever asked"):
        Asking(per_second=rate)


ADDRESSES = {
    None: "openai",
    "https://api.openai.com/v1": "openai",
    "https://eu.api.openai.com/v1": "openai",
    "https://openai.com.evil.test/v1": "api",
    "https://openrouter.ai/api/v1": "openrouter",
    "http://localhost:11434/v1": "ollama",
    "http://127.0.0.1:1234/v1": "lmstudio",
    "http://gpu.test:8000/v1": "vllm",
    "http://[::1]:8080/v1": "llama.cpp",
    "http://127.0.0.1:45678/v1": "api",
    "http://h:99999/v1": "api",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_address_stands_for_a_profile(address: str | None) -> None:
    assert profile_of(address).name == ADDRESSES[address]


def test_profile_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"'vlm'.*vllm.*probe"):
        built_in("vlm")


def test_profile_by_name_counts_before_a_kept_one_and_that_before_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://localhost:11434/v1"
    assert profile_for("m", url) == BUILT_IN["ollama"]
    kept = BUILT_IN["lmstudio"]
    store(profiles_folder(), url, "m", kept, probed_at="now")
    assert profile_for("m", url) == kept
    assert profile_for("m", f"{url}/") == kept
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    assert profile_for("m", None) == kept
    assert (profile_for("m", url, "vllm").name, profile_for("m", url, "vllm").known_from) == ("vllm", "given")


def test_profile_of_openais_own_server_is_kept_under_its_address() -> None:
    store(profiles_folder(), OPENAI, "m", BUILT_IN["api"], probed_at="now")
    assert profile_for("m", None) == BUILT_IN["api"]


BROKEN = {
    "no TOML": "name = ",
    "unknown field": 'name = "x"\ncan_fly = true\n',
    "wrong type": 'name = "x"\nphase = "?"\n',
}


@pytest.mark.parametrize("what", BROKEN)
def test_profile_that_cannot_be_read_is_told_and_not_guessed_at(tmp_path: Path, what: str) -> None:
    path_of(tmp_path, "http://h/v1", "m").write_text(BROKEN[what])
    with pytest.raises(UsageError, match="cannot be read"):
        stored(tmp_path, "http://h/v1", "m")


def test_profiles_of_two_models_are_two_files_whatever_their_names(tmp_path: Path) -> None:
    names = ["../../m", "a/b", "a-b", "x" * 500, ""]
    paths = {store(tmp_path, "http://h/v1", name, BUILT_IN["api"], probed_at="now") for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path}
    assert len(os.listdir(tmp_path)) == len(names)  # noqa: PTH208 - only their number counts


def test_options_say_how_a_model_is_asked() -> None:
    who = ModelOptions(
        model="m",
        effort="high",
        service_tier="flex",
        metadata=["team=a", "note=x=y"],
        extra='{"top_p": 0.5}',
        no_stream=True,
        chain=True,
        fallback_model=["n"],
        requests_per_second=2.5,
    ).chosen()
    assert who.asking == Asking(
        effort="high",
        service_tier="flex",
        metadata={"team": "a", "note": "x=y"},
        extra={"top_p": 0.5},
        streams=False,
        chains=True,
        per_second=2.5,
    )
    assert (who.name, who.fallbacks) == ("m", ("n",))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"metadata": ["team"]}, "NAME=VALUE"),
        ({"metadata": ["=x"]}, "NAME=VALUE"),
        ({"extra": "{"}, "not JSON"),
        ({"extra": "[1]"}, "not a JSON object"),
        ({"extra": '{"model": "n"}'}, "model cannot be chosen"),
    ],
)
def test_options_that_say_nothing_are_used_wrongly(options: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ModelOptions(**options).chosen()
