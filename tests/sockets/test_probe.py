"""What a server can do is found out by asking it: of each thing that one may lack, and of none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.able_server import AbleServer
from typer.testing import CliRunner

from cellwright.cli import main
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.errors import ModelError
from cellwright.model.probe import picture_of, probe
from cellwright.model.profile import BUILT_IN, Profile
from cellwright.model.stored_profiles import store, stored
from cellwright.model_server import profile_for, profiles_folder

ABLE = Profile(name="able", compaction=True, compact_endpoint=True, cache_key=True, max_image_side=2000, max_images=20)
LACKING = {
    "nothing": ABLE,
    "streaming": replace(ABLE, streaming=False),
    "the store flag": replace(ABLE, store_flag=False),
    "chaining": replace(ABLE, chaining=False),
    "pictures in answers": replace(ABLE, tool_images="follow_up"),
    "all pictures": replace(ABLE, tool_images="none", max_image_side=None, max_images=None),
    "custom tools": replace(ABLE, custom_tools=False),
    "phases": replace(ABLE, phase=False),
    "encrypted reasoning": replace(ABLE, encrypted_reasoning=False),
    "compaction": replace(ABLE, compaction=False),
    "the endpoint for compaction": replace(ABLE, compact_endpoint=False),
    "the parallel flag": replace(ABLE, parallel_flag=False),
    "tool_choice": replace(ABLE, tool_choice=False),
    "strict tools": replace(ABLE, strict_tools=False),
    "the cache key": replace(ABLE, cache_key=False),
    "any limit of pictures": replace(ABLE, max_image_side=None, max_images=None),
    "almost everything": Profile(
        name="poor", streaming=False, store_flag=False, chaining=False, tool_images="follow_up", custom_tools=False,
        phase=False, encrypted_reasoning=False, parallel_flag=False, tool_choice=False, strict_tools=False,
        max_image_side=1000, max_images=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LACKING)
async def test_what_a_server_lacks_is_found_out(what: str) -> None:
    async with AbleServer(LACKING[what]) as server:
        findings = await probe("m", base_url=server.base_url, api_key="k")
        assert findings.requests == len(server.requests) + 1  # the endpoint for compaction is another
    host = server.base_url.removeprefix("http://").removesuffix("/v1")
    assert findings.profile == replace(LACKING[what], name=host, known_from="probe")
    assert findings.requests <= 30
    assert not [seen for seen in findings.seen if seen.verdict == "unknown"]


async def test_chain_that_loses_what_was_said_is_none() -> None:
    """Some servers take `previous_response_id`, and rebuild the conversation without its calls."""

    class Forgetful(AbleServer):
        def _before(self, body):
            return super()._before(body)[:1]

    async with Forgetful(ABLE) as server:
        findings = await probe("m", base_url=server.base_url, api_key="k")
    assert findings.profile == replace(ABLE, name=findings.profile.name, known_from="probe", chaining=False)


async def test_picture_that_is_taken_in_an_answer_and_not_shown_is_sent_after_it() -> None:
    class Blind(AbleServer):
        def _response(self, history):
            return super()._response(
                [
                    {**item, "output": [part for part in item["output"] if part["type"] == "input_text"]}
                    if isinstance(item.get("output"), list)
                    else item
                    for item in history
                ]
            )

    async with Blind(ABLE) as server:
        findings = await probe("m", base_url=server.base_url, api_key="k")
    assert findings.profile.tool_images == "follow_up"


async def seen_of(script: str, rules: ServerRules | None = None) -> dict[str, tuple[str, str]]:
    async with Emulator(Script.parse(script, name="s.md"), rules=rules) as server:
        findings = await probe("m", base_url=server.base_url, api_key="any-key-does")
    return {seen.part: (seen.verdict, seen.saw) for seen in findings.seen}


async def test_refusal_that_tells_of_the_script_says_nothing_of_what_the_server_can_do() -> None:
    seen = await seen_of("Hello.")
    over = ("unknown", "not found out: 400: s.md has 1 turn, and turn 2 was asked for")
    assert (seen["chaining"], seen["encrypted_reasoning"]) == (over, over)
    assert ("no", over[1]) not in seen.values()


async def test_pictures_that_are_refused_in_a_tools_answer_are_said_to_be_in_the_servers_words() -> None:
    told = "Invalid value: 'input_image'. Supported values are: 'input_text'"
    verdict, saw = (await seen_of("Hello.", ServerRules(images_in_tools=False)))["tool_images"]
    assert (verdict, saw) == (
        "follow_up",
        f"refused in a tool's answer: 400: {told}; after it the colour was not named",
    )


async def test_server_that_answers_nothing_is_an_error_and_nothing_is_kept() -> None:
    with pytest.raises(ModelError, match="could not be reached"):
        await probe("m", base_url="http://127.0.0.1:9/v1", api_key="k")
    assert not profiles_folder().exists()


async def test_command_prints_what_was_seen_and_later_runs_use_it() -> None:
    import asyncio

    lacking = LACKING["almost everything"]
    async with AbleServer(lacking) as server:
        arguments = ["probe", "--base-url", server.base_url, "--model", "m", "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, main._app(), arguments)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    kept = profile_for("m", server.base_url)
    assert kept == replace(lacking, name=kept.name, known_from="probe")
    assert said["profile"]["tool_images"] == "follow_up"
    assert {seen["part"] for seen in said["seen"]} >= {"chaining", "tool_images", "max_images", "custom_tools"}
    assert profile_for("another", server.base_url) == BUILT_IN["api"]


def test_picture_of_the_probe_is_one() -> None:
    from tests.able_server import picture

    shown = picture({"image_url": picture_of(40)})
    assert (shown.size, shown.convert("RGB").getpixel((39, 39))) == ((40, 40), (220, 20, 20))


def test_kept_profile_does_not_say_what_an_address_has_besides_its_place(tmp_path) -> None:
    profile = Profile(name="x", known_from="probe")
    path = store(tmp_path, "http://ann:hunter2@h:1/v1?key=s3cret", "m", profile, probed_at="2026-01-01T00:00:00+00:00")
    assert 'base_url = "http://h:1/v1"' in path.read_text()
    assert path.name.startswith("h-1-v1-m-")


def test_profile_is_kept_as_it_was(tmp_path) -> None:
    profile = LACKING["almost everything"]
    path = store(tmp_path, "http://h:1/v1", 'm "quoted" ü', profile, probed_at="2026-11-30T00:00:00+00:00")
    assert stored(tmp_path, "http://h:1/v1", 'm "quoted" ü') == profile
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
