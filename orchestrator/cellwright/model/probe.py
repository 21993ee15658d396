"""What a model server can do, found out by asking it.

Flows in: a server and a model. Flows out: a `Profile`, and of each part what was seen. Decided here: the questions,
each one small request that is bounded in time and alone has one thing in it that a server may not know; that what is
not merely taken but shown to work counts (a word that a chained conversation must remember, the colour of a picture);
and that what could not be found out, since a script had no answer for it say, stays as it was believed before.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import openai
from pydantic import JsonValue

from cellwright.model import sent
from cellwright.model.arriving import UNREADABLE, Arriving, events_of, stream_from
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import item_from
from cellwright.model.limiter import limiter_of
from cellwright.model.profile import Profile, ToolImages, place_of, profile_of
from cellwright.model.refusals import Words, code_of, is_of_script
from cellwright.model.responses import client_for
from cellwright.model.retrying import BrokenOff, GaveUp, Tries

REQUEST_S: Final = 60.0
"""Seconds that one question may take."""
SIDES: Final = (8000, 4000, 2000, 1000)
"""Pixels of a picture's side that are tried, until one is taken."""
COUNTS: Final = (100, 20, 5, 1)
"""Pictures in one request that are tried, until so many are taken."""

_WORD: Final = "zephyr"
_COLOUR: Final = "red"
_SAID_CHARS: Final = 160
_TASK: Final = "Answer with the one word: hello."
_TOOL: Final[dict[str, JsonValue]] = {
    "type": "function",
    "name": "look",
    "description": "Looks at something.",
    "strict": True,
    "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
}
_CALL: Final[dict[str, JsonValue]] = {
    "type": "function_call",
    "call_id": "call_probe",
    "name": "look",
    "arguments": "{}",
}

Body = dict[str, JsonValue]


@dataclass(frozen=True)
class Seen:
    """One thing that was asked."""

    part: str
    """The profile's field."""
    verdict: str
    """`yes`, `no`, a number, a word; `unknown`: the profile says what was believed before."""
    saw: str
    """What was seen, as half a sentence."""


@dataclass(frozen=True)
class Findings:
    """What a server can do."""

    profile: Profile
    seen: tuple[Seen, ...]
    requests: int
    """How many were made."""


@dataclass(frozen=True)
class _Reply:
    """What came of one question."""

    verdict: Literal["taken", "refused", "unknown"]
    text: str = ""
    said: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def is_taken(self) -> bool:
        return self.verdict == "taken"


async def probe(
    model: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    on_seen: Callable[[Seen], None] = lambda _: None,
) -> Findings:
    """Ask a server what it can do: some thirty small requests at most.

    Args:
        model: Name of a model there.
        base_url: Its address, up to `/v1`; absent: as the environment says, or OpenAI.
        api_key: Absent: `OPENAI_API_KEY`.
        on_seen: Is told of each part as it is found out.

    Raises:
        UsageError: There is neither a key nor another server.
        ModelError: Not even the simplest request is answered.
    """
    retrying = Retrying(attempts=3, most_s=30.0, total_s=REQUEST_S, idle_s=REQUEST_S)
    client = client_for(base_url, api_key, Asking(retrying=retrying))
    try:
        return await _Probe(client, model, retrying, on_seen).findings()
    finally:
        await client.close()


class _Probe:
    """One server, while it is asked."""

    def __init__(
        self, client: openai.AsyncOpenAI, model: str, retrying: Retrying, on_seen: Callable[[Seen], None]
    ) -> None:
        self._client = client
        self._model = model
        self._on_seen = on_seen
        self._words = Words(model, place_of(str(client.base_url)), client.api_key)
        self._tries = Tries(retrying, limiter_of(str(client.base_url)))
        self._seen: list[Seen] = []
        self._requests = 0
        self._base: Body = {}
        """What every question has besides what it asks."""
        self._profile = replace(
            profile_of(str(client.base_url)), name=urlsplit(self._words.base_url).netloc, known_from="probe"
        )

    async def findings(self) -> Findings:
        await self._must_answer()
        await self._flags()
        await self._tools()
        await self._pictures()
        await self._items()
        await self._memory()
        return Findings(self._profile, tuple(self._seen), self._requests)

    async def _must_answer(self) -> None:
        try:
            await self._answered(self._body())
        except GaveUp as gave_up:
            raise self._words.failed(
                gave_up.cause, tries=gave_up.tries, waited_s=gave_up.waited_s, may_pass=gave_up.may_pass
            ) from None

    async def _flags(self) -> None:
        stored = await self._ask(store=False)
        self._found("store_flag", stored)
        if stored.is_taken:
            self._base["store"] = False
        self._found("streaming", await self._ask_streaming())
        self._found("cache_key", await self._ask(prompt_cache_key="cellwright-probe"))
        compacts: JsonValue = [{"type": "compaction", "compact_threshold": 1_000_000}]
        self._found("compaction", await self._ask(context_management=compacts))
        self._found("compact_endpoint", await self._compact())

    async def _tools(self) -> None:
        strict = await self._ask(tools=[_TOOL])
        self._found("strict_tools", strict)
        tool: JsonValue = _TOOL if strict.is_taken else {**_TOOL, "strict": False}
        self._found("parallel_flag", await self._ask(tools=[tool], parallel_tool_calls=False))
        told = await self._ask("Call the tool look now.", tools=[tool], tool_choice="none")
        called = any(item.get("type") == "function_call" for item in _items(told.body))
        self._found("tool_choice", told, fails=called, why="it called a tool all the same")
        free: JsonValue = {"type": "custom", "name": "write", "description": "Writes.", "format": {"type": "text"}}
        call: JsonValue = {"type": "custom_tool_call", "call_id": "call_free", "name": "write", "input": "a = 1"}
        output: JsonValue = {"type": "custom_tool_call_output", "call_id": "call_free", "output": "Written."}
        self._found("custom_tools", await self._ask([_user(_TASK), call, output], tools=[free]))

    async def _pictures(self) -> None:
        picture = picture_of(64)
        question = "Which colour has the picture? Answer with one word."
        shown: JsonValue = {"type": "input_image", "image_url": picture, "detail": "auto"}
        text: JsonValue = {"type": "input_text", "text": "Picture 1:"}
        answers: dict[ToolImages, list[JsonValue]] = {
            "native": [_answer([text, shown])],
            "follow_up": [_answer([text]), {"type": "message", "role": "user", "content": [text, shown]}],
        }
        tool: JsonValue = {**_TOOL, "strict": self._profile.strict_tools}
        taken: dict[ToolImages, _Reply] = {}
        for way, items in answers.items():
            taken[way] = await self._ask([_user(question), _CALL, *items], tools=[tool])
            if taken[way].is_taken and _COLOUR in taken[way].text.lower():
                break
        self._decide_pictures(taken)
        if self._profile.tool_images != "none":
            await self._picture_limits()

    def _decide_pictures(self, replies: dict[ToolImages, _Reply]) -> None:
        """What is seen counts most; else what is taken, in the answer rather than after it."""
        saw = [way for way, reply in replies.items() if reply.is_taken and _COLOUR in reply.text.lower()]
        took = [way for way, reply in replies.items() if reply.is_taken]
        unknown = next((reply for reply in replies.values() if reply.verdict == "unknown"), None)
        if not took and unknown is not None:
            self._tell("tool_images", self._profile.tool_images, f"not found out: {unknown.said}", is_unknown=True)
            return
        way: ToolImages = (saw or took or ["none"])[0]
        refused = next((reply.said for reply in replies.values() if reply.verdict == "refused"), "")
        named = f"the colour was {'named' if saw else 'not named'}"
        told = named if not refused else f"refused in a tool's answer: {refused}; after it {named}" if took else refused
        self._profile = replace(self._profile, tool_images=way)
        self._tell("tool_images", way, told)

    async def _picture_limits(self) -> None:
        await self._picture_limit("max_image_side", SIDES, lambda side: [picture_of(side)])
        await self._picture_limit("max_images", COUNTS, lambda count: [picture_of(32)] * count)

    async def _picture_limit(self, part: str, sizes: Sequence[int], content: Callable[[int], list[str]]) -> None:
        """Ask for less, until it is taken."""
        saw = ""
        for size in sizes:
            reply = await self._ask([_user(_TASK, content(size))])
            if reply.is_taken:
                most = None if size == sizes[0] else size
                self._profile = _with(self._profile, part, most)
                self._tell(part, str(most or "none found"), saw or f"{size} taken")
                return
            saw = reply.said
            if reply.verdict == "unknown":
                break
        self._tell(part, "", saw, is_unknown=True)

    async def _items(self) -> None:
        said: JsonValue = {"type": "message", "role": "assistant", "content": "I begin.", "phase": "commentary"}
        self._found("phase", await self._ask([_user(_TASK), said, _user("Go on.")]))
        first = await self._ask(include=["reasoning.encrypted_content"])
        thoughts = [item for item in _items(first.body) if item.get("type") == "reasoning"]
        sealed = [item for item in thoughts if item.get("encrypted_content")]
        if not first.is_taken or not thoughts:
            self._found("encrypted_reasoning", first)
            return
        back: list[JsonValue] = [{name: value for name, value in one.items() if value is not None} for one in sealed]
        again = await self._ask([_user(_TASK), *back, _user("Go on.")], include=["reasoning.encrypted_content"])
        self._found("encrypted_reasoning", again, fails=not sealed, why="its reasoning came without it")

    async def _memory(self) -> None:
        tool: JsonValue = {**_TOOL, "strict": self._profile.strict_tools}
        output = _answer([{"type": "input_text", "text": f"The secret word is {_WORD}."}])
        store: Body = {"store": True} if self._profile.store_flag else {}
        first = await self._ask([_user("Look, and remember the word."), _CALL, output], tools=[tool], **store)
        last = str(first.body.get("id") or "")
        if not first.is_taken or not last:
            self._found("chaining", first)
            return
        question = _user("Which word was it? Answer with it.")
        second = await self._ask([question], tools=[tool], previous_response_id=last, **store)
        has_lost = _WORD not in second.text.lower()
        self._found("chaining", second, fails=has_lost, why="it took the request, and had lost what was said before")

    async def _ask(self, said: str | list[JsonValue] = _TASK, **more: JsonValue) -> _Reply:
        return await self._reply(partial(self._post, self._body(said, **more)))

    async def _ask_streaming(self) -> _Reply:
        return await self._reply(partial(self._stream, self._body(stream=True)))

    async def _compact(self) -> _Reply:
        body: Body = {"model": self._model, "input": [_user(_TASK)]}
        return await self._reply(partial(self._posted, "/responses/compact", body))

    def _body(self, said: str | list[JsonValue] = _TASK, **more: JsonValue) -> Body:
        items: list[JsonValue] = [_user(said)] if isinstance(said, str) else said
        return {"model": self._model, "input": items, **self._base, **more}

    async def _reply(self, ask: Callable[[], Any]) -> _Reply:
        try:
            got = await self._tries.answered(ask, lambda _: None, self._words.what)
        except GaveUp as gave_up:
            said = self._words.what(gave_up.cause).partition("status ")[2] or self._words.what(gave_up.cause)
            refused = isinstance(gave_up.cause, openai.APIStatusError) and not gave_up.may_pass
            refused = refused and not is_of_script(code_of(gave_up.cause))
            return _Reply("refused" if refused else "unknown", said=said[:_SAID_CHARS])
        return _Reply("taken", text=_text(got.value), body=got.value)

    async def _answered(self, body: Body) -> dict[str, Any]:
        return (await self._tries.answered(partial(self._post, body), lambda _: None, self._words.what)).value

    async def _post(self, body: Body) -> dict[str, Any]:
        sent.tell(body)
        return await self._posted("/responses", body)

    async def _posted(self, path: str, body: Body) -> dict[str, Any]:
        self._requests += 1
        async with _in_time():
            came: object = await self._client.post(path, cast_to=object, body=body)
        if not isinstance(came, dict):
            raise BrokenOff("it answered with something that is no response")
        return came

    async def _stream(self, body: Body) -> dict[str, Any]:
        sent.tell(body)
        self._requests += 1
        arriving = Arriving(lambda _: None)
        async with _in_time():
            stream = await stream_from(self._client, body)
            async with stream, aclosing(events_of(stream)) as events:
                async for event in events:
                    arriving.take(event)
        raw = arriving.whole().raw
        return raw if isinstance(raw, dict) else {}

    def _found(self, part: str, reply: _Reply, *, fails: bool = False, why: str = "") -> None:
        """Keep a verdict of yes or no."""
        if reply.verdict == "unknown":
            self._tell(
                part, "yes" if getattr(self._profile, part) else "no", f"not found out: {reply.said}", is_unknown=True
            )
            return
        can = reply.is_taken and not fails
        self._profile = _with(self._profile, part, can)
        self._tell(part, "yes" if can else "no", (why if reply.is_taken and fails else reply.said) or "taken")

    def _tell(self, part: str, verdict: str, saw: str, *, is_unknown: bool = False) -> None:
        seen = Seen(part, "unknown" if is_unknown else verdict, saw)
        self._seen.append(seen)
        self._on_seen(seen)


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Bound one question; what takes longer broke off."""
    try:
        async with asyncio.timeout(REQUEST_S):
            yield
    except TimeoutError as error:
        raise BrokenOff(f"there was no answer within {REQUEST_S:g} s") from error
    except UNREADABLE as error:
        raise BrokenOff(f"it answered with what is no JSON ({str(error)[:200]})") from error


def _with(profile: Profile, part: str, value: bool | int | None) -> Profile:
    changed: dict[str, Any] = {part: value}
    return replace(profile, **changed)


def picture_of(side: int) -> str:
    """Return a square picture of one colour as a `data:` URL: PNG with a palette of one, a bit for each pixel."""
    rows = zlib.compress((b"\0" + bytes(-(-side // 8))) * side, 6)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 3, 0, 0, 0)),
        (b"PLTE", bytes((220, 20, 20))),
        (b"IDAT", rows),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"


def _user(text: str, pictures: list[str] | None = None) -> JsonValue:
    shown: list[JsonValue] = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in pictures or ()]
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, *shown]}


def _answer(parts: list[JsonValue]) -> JsonValue:
    return {"type": "function_call_output", "call_id": "call_probe", "output": parts}


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    output = body.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


def _text(body: dict[str, Any]) -> str:
    items = [item_from(item) for item in _items(body)]
    return " ".join(json.dumps(item.raw) if item.type == "call" else getattr(item, "text", "") for item in items)
