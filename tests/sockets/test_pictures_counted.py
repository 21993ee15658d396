"""What a run of fifteen turns with a screenshot each sends: our loop beside the guide's, counted at the same server.

The guide's loop is written here in words of our own: each response's items and the answers to its calls are added to the input, a
picture as it is, with `detail: original`; or only the answers are sent, with the id of the response before, and the server adds them
to what it has, so that the model reads as much. Counted are requests, bytes and the tokens of the pictures in what the model reads.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

import openai
import pytest
import pytest_asyncio
from tests.pictures import png, shows

from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.estimate import picture_tokens
from cellwright.history import Pictures
from cellwright.loop import run
from cellwright.model.tools import tools_for
from cellwright.terms import Sending
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 15
OF_ONE = 45 * 32
"""Tokens of a picture of 1440x1000."""
TOOLS = [dict(tool) for tool in tools_for(["python"], width=1440, height=1000, page_height=900)]


def script(*shown: int) -> Script:
    turns = [f"I look.\n```python\n{shows(number)}\nlog({turn})\n```" for turn, number in enumerate(shown)]
    return Script.parse("\n---\n".join([*turns, "All is done."]))


DIFFERENT = script(*range(1, TURNS + 1))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulator() -> AsyncIterator[Emulator]:
    async with Emulator(DIFFERENT) as running:
        yield running


@dataclass(frozen=True)
class Counted:
    """What one run sent."""

    requests: int
    bytes: int
    picture_tokens: tuple[int, ...]
    """Of what the model reads, request by request."""
    broken: int
    """So many requests do not begin with what was sent before, which the server has in its cache."""


def counted(bodies: list[Any]) -> Counted:
    read: list[Any] = []
    tokens, broken = [], 0
    for body in bodies:
        if body.get("previous_response_id"):
            read = [*read, *body["input"]]
        else:
            broken += read != body["input"][: len(read)]
            read = body["input"]
        parts = [part for item in read if isinstance(item.get("output"), list) for part in item["output"]]
        tokens.append(sum(picture_tokens(part["image_url"]) for part in parts if part["type"] == "input_image"))
    return Counted(len(bodies), sum(len(json.dumps(body)) for body in bodies), tuple(tokens), broken)


async def guides(emulator: Emulator, played: Script, how: Literal["chained", "stateless"]) -> Counted:
    """Do it as the guide does, a new picture with each answer."""
    emulator.play(played)
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    shown = iter(range(1, TURNS + 1))
    async with openai.AsyncOpenAI(base_url=emulator.base_url, api_key="k", http_client=http) as client:
        read: list[Any] = [{"role": "user", "content": "Do it."}]
        more: dict[str, Any] = {"store": how == "chained"}
        while True:
            response = await client.responses.create(model="m", tools=TOOLS, input=read, **more)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return counted(emulator.requests)
            url = "data:image/png;base64," + base64.b64encode(png(next(shown))).decode()
            output = [{"type": "input_image", "image_url": url, "detail": "original"}]
            answers = [{"type": "function_call_output", "call_id": call.call_id, "output": output} for call in calls]
            if how == "chained":
                read, more["previous_response_id"] = answers, response.id
            else:
                read = [*read, *(item.to_dict() for item in response.output), *answers]


async def ours(emulator: Emulator, played: Script, sending: Sending | None = None) -> Counted:
    emulator.play(played)
    outcome = await run(
        "Do it.", base_url=emulator.base_url, api_key="k", backend=FakeBackend(), languages=("python",), sending=sending
    )
    assert outcome.status == "done", outcome.reason
    return counted(emulator.requests)


@pytest.mark.slow
async def test_fifteen_turns_send_two_fifths_of_the_pictures_or_less(emulator: Emulator) -> None:
    stateless = await guides(emulator, DIFFERENT, "stateless")
    chained = await guides(emulator, DIFFERENT, "chained")
    whole = await ours(emulator, DIFFERENT, Sending(pictures=None))
    usual = await ours(emulator, DIFFERENT)
    assert stateless.requests == chained.requests == whole.requests == usual.requests == TURNS + 1
    everything = [OF_ONE * number for number in range(TURNS + 1)]
    assert list(stateless.picture_tokens) == list(chained.picture_tokens) == list(whole.picture_tokens) == everything
    assert sum(usual.picture_tokens) <= 0.4 * sum(everything)
    assert [tokens // OF_ONE for tokens in usual.picture_tokens] == [0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    assert usual.broken == 2, "twice, the server reads anew what it had in its cache"
    assert whole.broken == stateless.broken == 0
    print(f"\nguide, stateless: {stateless}\nguide, chained: {chained}\nours, all: {whole}\nours: {usual}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "pictures", "broken"),
    [
        ("3:1", 30, 4),
        ("4:1", 36, 3),
        ("4:2", 42, 4),
        ("5:1", 45, 2),
        ("5:2", 48, 3),
        ("6:1", 48, 2),
        ("8:1", 64, 1),
        ("8:3", 72, 2),
    ],
)
async def test_what_other_steps_send_is_as_the_documents_say(
    emulator: Emulator, steps: str, pictures: int, broken: int
) -> None:
    most, kept = map(int, steps.split(":"))
    sent = await ours(emulator, DIFFERENT, Sending(pictures=Pictures(most, kept)))
    assert (sum(sent.picture_tokens) // OF_ONE, sent.broken) == (pictures, broken)


async def test_a_screen_that_does_not_change_is_sent_once(emulator: Emulator) -> None:
    sent = await ours(emulator, script(*[7] * TURNS))
    assert [tokens // OF_ONE for tokens in sent.picture_tokens] == [0, *[1] * TURNS]
    assert sent.broken == 0


async def test_a_summary_instead_of_what_came_before_is_taken_by_a_strict_server(emulator: Emulator) -> None:
    sent = await ours(emulator, DIFFERENT, Sending(pictures=None, compact_at=12_000))
    assert sent.requests > TURNS + 1
    assert 0 < sent.broken <= 4
