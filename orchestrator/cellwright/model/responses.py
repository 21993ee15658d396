"""A server of the Responses API, by the `openai` SDK.

Flows in: a `Request`. Flows out: deltas while the response arrives, then the whole of it; or a `ModelError`. Decided
here: what a request has besides its input; that the history is sent whole, and nothing is stored anywhere, unless
chaining is asked for; when the same is sent in another way: whole after all where the server has forgotten, without a
picture that it refused; that a custom tool which was not offered as one is not called. A credential never gets into a message.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import ssl
import uuid
from collections.abc import Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import openai
from openai.types.responses import Response as ApiResponse
from pydantic import JsonValue

from cellwright.errors import UsageError
from cellwright.model import sent
from cellwright.model.arriving import UNREADABLE, Arriving, events_of, response_from, stream_from
from cellwright.model.asking import Asking, merged
from cellwright.model.base import AskedOtherwise, OnDelta, Request, Response, Retried, as_offered
from cellwright.model.bounded import HEADERS, bound
from cellwright.model.chain import Chain
from cellwright.model.limiter import current, limiter_of
from cellwright.model.output_limits import OutputLimits
from cellwright.model.pictures import RefusedPictures
from cellwright.model.profile import Profile, place_of, profile_of
from cellwright.model.refusals import NO_KEY, Words
from cellwright.model.retrying import BrokenOff, GaveUp, Tries
from cellwright.model.wire import Wire

_PICTURE: Final = re.compile(r"\bimages?\b|\bpicture", re.IGNORECASE)
_PICTURE_ROUNDS: Final = 2
"""So often is a request made again without pictures that were refused: without the one that is named, then without all new ones."""
_CONNECT_S: Final = 30.0
_DRAIN_S: Final = 0.5
"""Seconds that a stream has to end once its response is whole; then its connection can be used again."""


class ResponsesModel:
    """One model behind one server. Use it in one event loop."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        asking: Asking | None = None,
        profile: Profile | None = None,
        authors: MutableMapping[str, str] | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            name: The model's name at the server.
            base_url: Address of the API, up to `/v1`; absent: `OPENAI_BASE_URL`, or OpenAI.
            api_key: Absent: `OPENAI_API_KEY`; where that is absent too and `base_url` is given, none is needed.
            asking: How it is asked.
            profile: What the server can do; absent: what is known of its address.
            authors: Which model made a reasoning item, by the item's id; for several that share a conversation.

        Raises:
            UsageError: There is neither a key nor another server, or something is asked for that the server cannot do.
        """
        self._asking = asking or Asking()
        self._client = client_for(base_url, api_key, self._asking)
        self._name = name
        self.profile = profile or profile_of(base_url or os.environ.get("OPENAI_BASE_URL") or None)
        """What the server can do."""
        self._asking.must_fit(self.profile)
        self._words = Words(name, place_of(str(self._client.base_url)), self._client.api_key)
        self._wire = Wire(self.profile, self._asking.custom_tools)
        self._tries = Tries(self._asking.retrying, limiter_of(str(self._client.base_url), self._asking.per_second))
        self._chain = Chain()
        self._pictures = RefusedPictures()
        self._limits = OutputLimits()
        self._authors: MutableMapping[str, str] = {} if authors is None else authors
        self._cache_key = f"cellwright-{uuid.uuid4().hex[:16]}"

    def __repr__(self) -> str:
        return f"<ResponsesModel {self._name} at {self._words.base_url}, {self.profile.name}, key=********>"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        """Return what is sent besides `input`."""
        asking, profile = self._asking, self.profile
        previous, _ = self._start(request)
        tools: list[JsonValue] = [*self._wire.tools(request.tools)]
        body: dict[str, JsonValue] = {
            "model": self._name,
            "instructions": request.instructions,
            "tools": tools if request.may_call or profile.tool_choice else [],
            "stream": asking.streams and profile.streaming,
        }
        if profile.tool_choice:
            body["tool_choice"] = "auto" if request.may_call else "none"
        if profile.parallel_flag:
            body["parallel_tool_calls"] = False  # one desktop: two calls at once would fight for it
        if profile.store_flag:
            body["store"] = asking.chains
        if profile.encrypted_reasoning and not asking.chains:
            body["include"] = ["reasoning.encrypted_content"]
        if previous is not None:
            body["previous_response_id"] = previous
        if profile.cache_key:
            body["prompt_cache_key"] = self._cache_key
        whole = merged(body, self._chosen())
        if (limit := self._limits.of(request, self._name, whole)) is not None:
            whole["max_output_tokens"] = limit
        return whole

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        """Ask, forward the pieces as they arrive, and return the whole response."""
        rounds, waited_s = 0, 0.0
        while True:
            body, most = self._body(request), self._sent_limit(request)
            try:
                got = await self._tries.answered(partial(self._once, body, on_delta), on_delta, self._words.what)
            except GaveUp as gave_up:
                waited_s += gave_up.waited_s
                if self._has_forgotten(gave_up.cause, body):
                    self._chain.forget()
                    on_delta(self._whole_again(request))
                elif (said := self._limits.refused(gave_up.cause, most, self._chosen())) is not None:
                    request = replace(request, most_output=None)
                    on_delta(AskedOtherwise(self._name, self.parameters(request), said))
                elif rounds < _PICTURE_ROUNDS and self._refused_pictures(gave_up.cause, body, rounds):
                    rounds += 1
                    on_delta(Retried(f"{self._words.what(gave_up.cause)}. It is asked again without that picture."))
                else:
                    raise self._words.failed(
                        gave_up.cause, tries=gave_up.tries, waited_s=waited_s, may_pass=gave_up.may_pass
                    ) from None
                continue
            items = as_offered(got.value.items, custom_tools=self._asking.custom_tools)
            waited_ms = round((waited_s + got.waited_s) * 1000)
            return self._taken(request, replace(got.value, items=items, waited_ms=waited_ms, most_output=most))

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    def _start(self, request: Request) -> tuple[str | None, int]:
        return self._chain.start(request.history) if self._asking.chains else (None, 0)

    def _chosen(self) -> dict[str, JsonValue]:
        asking = self._asking
        chosen: dict[str, JsonValue] = {}
        if asking.effort is not None:
            chosen["reasoning"] = {"effort": asking.effort}
        if asking.service_tier is not None:
            chosen["service_tier"] = asking.service_tier
        if asking.metadata:
            chosen["metadata"] = dict(asking.metadata)
        if asking.compact_threshold is not None:
            chosen["context_management"] = [{"type": "compaction", "compact_threshold": asking.compact_threshold}]
        return merged(chosen, asking.extra)

    def _body(self, request: Request) -> dict[str, JsonValue]:
        _, start = self._start(request)
        items = self._wire.input(
            request.history,
            start=start,
            refused=self._pictures.refused,
            is_foreign=lambda item_id: self._author(item_id, request) != self._name,
        )
        return {**self.parameters(request), "input": [*items]}

    def _author(self, item_id: str, request: Request) -> str:
        return self._authors.get(item_id) or request.authors.get(item_id) or self._name

    async def _once(self, body: dict[str, JsonValue], on_delta: OnDelta) -> Response:
        sent.tell(body)
        within_s = self._asking.retrying.total_s
        try:
            async with asyncio.timeout(within_s) as whole:
                if body["stream"]:
                    return await self._streamed(body, on_delta)
                return await self._unstreamed(body)
        except TimeoutError as error:
            if not whole.expired():
                raise
            raise BrokenOff(f"there was no whole response within {within_s:g} s") from error

    async def _unstreamed(self, body: dict[str, JsonValue]) -> Response:
        try:
            came = await self._client.post("/responses", cast_to=ApiResponse, body=body)
        except UNREADABLE as error:
            raise BrokenOff(f"it answered with what is no JSON ({str(error)[:200]})") from error
        return response_from(came)

    async def _streamed(self, body: dict[str, JsonValue], on_delta: OnDelta) -> Response:
        idle_s = self._asking.retrying.idle_s
        arriving = Arriving(on_delta)
        try:
            async with asyncio.timeout(idle_s) as quiet:
                stream = await stream_from(self._client, body)
                async with stream, aclosing(events_of(stream)) as events:
                    async for event in events:
                        arriving.take(event)
                        wait_s = _DRAIN_S if arriving.is_whole else idle_s
                        quiet.reschedule(asyncio.get_running_loop().time() + wait_s)
        except (openai.OpenAIError, TimeoutError) as error:
            if arriving.is_whole:
                return arriving.whole()  # it arrived; what became of its connection is all one
            if isinstance(error, TimeoutError) and quiet.expired():
                raise BrokenOff(f"nothing came for {idle_s:g} s") from error
            raise
        return arriving.whole()

    def _taken(self, request: Request, response: Response) -> Response:
        """Remember what the server has now."""
        if self._asking.chains and response.status == "completed" and response.id:
            self._chain.arrived(response.id, request.history, response.items)
        self._pictures.take(request.history)
        for item in response.items:
            if item.raw.get("type") == "reasoning":
                self._authors[str(item.raw.get("id") or "")] = self._name
        return response

    def _has_forgotten(self, error: Exception, body: dict[str, JsonValue]) -> bool:
        if "previous_response_id" not in body or not isinstance(error, openai.APIStatusError):
            return False
        return error.code == "previous_response_not_found" or (
            error.status_code in (400, 404) and "previous_response" in f"{error.param} {error.message}"
        )

    def _sent_limit(self, request: Request) -> int | None:
        """Return the request's limit as it is sent; None where it is not, or a smaller one of the user's."""
        return self._limits.of(request, self._name, self._chosen())

    def _whole_again(self, request: Request) -> AskedOtherwise:
        reason = "The model server has forgotten the conversation. It is sent whole, and chained anew from there."
        return AskedOtherwise(self._name, self.parameters(request), reason)

    def _refused_pictures(self, error: Exception, body: dict[str, JsonValue], rounds: int) -> bool:
        """Return whether it was a picture that was refused, and mark which."""
        if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 415, 422):
            return False
        if not _PICTURE.search(f"{error.code} {error.message}".replace("_", " ")):
            return False
        items = body["input"] if isinstance(body["input"], list) else []
        return self._pictures.refuse(
            [item for item in items if isinstance(item, dict)], error.param if rounds == 0 else None
        )


def client_for(base_url: str | None, api_key: str | None, asking: Asking) -> openai.AsyncOpenAI:
    """Return a client of the SDK's; arguments as with `ResponsesModel`."""
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    api_key = api_key or os.environ.get("OPENAI_API_KEY") or None
    if api_key is None and base_url is None:
        raise UsageError(
            "There is no key for the model server: OPENAI_API_KEY is not set. Nothing was sent. Set it, name another "
            "server with --base-url URL, or play a script offline with --emulate SCRIPT."
        )
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or NO_KEY,
        default_headers=HEADERS,
        max_retries=0,  # ours are told to the run, and shared by all of them
        timeout=openai.Timeout(asking.retrying.total_s, connect=_CONNECT_S),
        http_client=_http_client(base_url, asking.per_second),
    )


def _http_client(base_url: str | None, per_second: float | None) -> openai.DefaultAsyncHttpxClient:
    """Return a client; one for this machine goes without the environment's proxy: that leads away from it, never back."""
    hooks: dict[str, list[Any]] = {"response": [bound]}
    options: dict[str, Any] = {"event_hooks": hooks}
    if base_url and _is_loopback(base_url):
        options["trust_env"] = False
        if urlsplit(base_url).scheme != "https":
            # Over plain HTTP no certificate is looked at. To read all that the machine trusts takes 25 ms, so this one trusts none.
            options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if per_second is not None:
        hooks["request"] = [_tell_when_sent]
    return openai.DefaultAsyncHttpxClient(**options)


async def _tell_when_sent(request: httpx2.Request) -> None:
    """Have the gate to the server told when a request has left."""

    async def see(event: str, _: Mapping[str, object]) -> None:
        turn = current.get()
        if turn is not None and event.endswith("send_request_headers.complete"):
            turn.sent()

    request.extensions = {**request.extensions, "trace": see}


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
