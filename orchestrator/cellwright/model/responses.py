"""A server of the Responses API, by the `openai` SDK.

Flows in: a `Request`. Flows out: deltas while the response arrives, then the whole of it; or a `ModelError`.
Decided here: what is sent (stateless: `store` false, every item as it came), that the SDK's own retries are used, and
the sentence for each way in which a server can refuse. A credential never gets into a message.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

import openai
from openai.types.responses import Response as ApiResponse
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import JsonValue

from cellwright.errors import ModelError, UsageError
from cellwright.model.base import Delta, Item, OnDelta, Request, Response, Usage, item_from

_KEY: Final = re.compile(r"\b(sk|sess)-[A-Za-z0-9_*.-]{6,}")
_NO_KEY: Final = "not-needed"
"""What the SDK is given for a server that wants no key; it insists on one."""
_MESSAGE_CHARS: Final = 800
_LEFT: Final = "What was executed before is recorded, and nothing was executed because of this request."

_DELTAS: Final[dict[str, Literal["text", "refusal", "reasoning"]]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}


class ResponsesModel:
    """One model behind one server. Use it in one event loop."""

    def __init__(
        self, name: str, *, base_url: str | None = None, api_key: str | None = None, max_retries: int = 2
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            name: The model's name at the server.
            base_url: Address of the API, up to `/v1`; absent: `OPENAI_BASE_URL`, or OpenAI.
            api_key: Absent: `OPENAI_API_KEY`; where that is absent too and `base_url` is given, none is needed.
            max_retries: How often the SDK asks again after a refusal that may pass (408, 409, 429, 5xx, connection).

        Raises:
            UsageError: There is neither a key nor another server.
        """
        self._client = _client(base_url, api_key, max_retries)
        self._name = name

    def __repr__(self) -> str:
        return f"<ResponsesModel {self._name} at {self._client.base_url}, key=********>"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        """Return what is sent besides `input`."""
        return {
            "model": self._name,
            "instructions": request.instructions,
            "tools": [dict(tool) for tool in request.tools],
            "tool_choice": "auto" if request.may_call else "none",
            "parallel_tool_calls": False,  # one desktop: two calls at once would fight for it
            "store": False,
            "stream": True,
        }

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        """Ask, forward the pieces as they arrive, and return the whole response."""
        try:
            return await self._respond(request, on_delta)
        except openai.APIStatusError as error:
            # without its cause, which holds the request, and with it the key
            raise ModelError(self._refused(error), refused_with=error.status_code) from None
        except openai.APIConnectionError as error:
            raise ModelError(self._unreachable(error)) from None
        except (openai.OpenAIError, ValueError) as error:  # ValueError: an event that is not JSON
            said = self._without_key(str(error)) or type(error).__name__
            raise ModelError(
                f"The model server broke off: {said}. Usually a passing fault of the server, or one that speaks another "
                f"dialect. {_LEFT} Try again."
            ) from None

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    async def _respond(self, request: Request, on_delta: OnDelta) -> Response:
        sent: dict[str, Any] = {**self.parameters(request), "input": [dict(item) for item in request.history]}
        stream = cast("openai.AsyncStream[ResponseStreamEvent]", await self._client.responses.create(**sent))
        arriving = _Arriving(on_delta)
        async with stream:
            async for event in stream:
                arriving.take(event)
        return arriving.whole()

    def _refused(self, error: openai.APIStatusError) -> str:
        body = error.body if isinstance(error.body, dict) else {}
        said = self._without_key(str(body.get("message") or error.message))
        what = f"The model server refused the request with status {error.status_code}: {said}."
        if error.code == "script_expectation_failed":
            return f"{what} A cell did something else than its script was written for. {_LEFT} See `cellwright show`."
        match error.status_code:
            case 401 | 403:
                return f"{what} The key is missing, wrong, or may not use {self._name!r}. {_LEFT} Check OPENAI_API_KEY."
            case 404:
                return f"{what} Usually the model's name or --base-url is wrong. {_LEFT} Check --model and --base-url."
            case 429:
                return f"{what} Too many requests, or the quota is spent. {_LEFT} Wait, or check the account's limits."
            case status if status >= 500:
                return f"{what} A fault of the server, also after retries. {_LEFT} Try again later."
            case _:
                return f"{what} Usually the server doesn't know a part of the request. {_LEFT} See its message."

    def _unreachable(self, error: openai.APIConnectionError) -> str:
        cause = self._without_key(str(error.__cause__ or error))
        return (
            f"The model server at {self._client.base_url} could not be reached: {cause or type(error).__name__}. Usually "
            f"the address is wrong or the network is down. {_LEFT} Check --base-url and the connection."
        )

    def _without_key(self, text: str) -> str:
        key = self._client.api_key
        if key and key != _NO_KEY:
            text = text.replace(key, "********")
        return _KEY.sub("********", text)[:_MESSAGE_CHARS].rstrip(" .")


class _Arriving:
    """A response on its way: pieces are forwarded, whole items kept."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._names: dict[str, str] = {}
        self._items: dict[int, Item] = {}
        self._last: ApiResponse | None = None

    def take(self, event: ResponseStreamEvent) -> None:
        match event.type:
            case "response.output_item.added":
                if event.item.type == "function_call":
                    self._names[event.item.id or ""] = event.item.name
            case "response.function_call_arguments.delta":
                name = self._names.get(event.item_id, "")
                self._on_delta(Delta("arguments", event.item_id, event.delta, name))
            case "response.output_item.done":  # only here is encrypted reasoning complete
                self._items[event.output_index] = _as_json(event.item)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._last = event.response
            case "error":
                raise _BrokenOff(event.message)
            case kind if kind in _DELTAS:
                piece = cast("Any", event)  # the four of _DELTAS have these fields
                self._on_delta(Delta(_DELTAS[kind], piece.item_id, piece.delta))

    def whole(self) -> Response:
        if self._last is None:
            raise _BrokenOff("the stream ended before the response did")
        raw = _as_json(self._last)
        said = raw.get("output")
        listed = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
        items = [self._items[index] for index in sorted(self._items)] if self._items else listed
        return Response(
            id=self._last.id,
            status=self._last.status or "completed",
            items=tuple(item_from(item) for item in items),
            usage=_usage(self._last),
            reason=_reason(self._last),
            raw={**raw, "output": [dict(item) for item in items]},
        )


class _BrokenOff(openai.OpenAIError):
    """The stream said that it failed, or ended too early."""


def _client(base_url: str | None, api_key: str | None, max_retries: int) -> openai.AsyncOpenAI:
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    api_key = api_key or os.environ.get("OPENAI_API_KEY") or None
    if api_key is None and base_url is None:
        raise UsageError(
            "There is no key for the model server: OPENAI_API_KEY is not set. Nothing was sent. Set it, name another "
            "server with --base-url URL, or play a script offline with --emulate SCRIPT."
        )
    return openai.AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or _NO_KEY,
        max_retries=max_retries,
        http_client=_loopback_client(base_url) if base_url and _is_loopback(base_url) else None,
    )


def _loopback_client(base_url: str) -> openai.DefaultAsyncHttpxClient:
    """Return a client without the environment's proxy: that leads away from this machine, never back to it."""
    if urlsplit(base_url).scheme == "https":
        return openai.DefaultAsyncHttpxClient(trust_env=False)
    # Over plain HTTP no certificate is looked at. To read all that the machine trusts takes 25 ms, so this one trusts none.
    return openai.DefaultAsyncHttpxClient(trust_env=False, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _as_json(value: ApiResponse | ResponseOutputItem) -> dict[str, JsonValue]:
    """Return what the server sent, fields unknown to the SDK in it and absent ones not."""
    return cast("dict[str, JsonValue]", value.to_dict(mode="json", warnings=False))


def _reason(response: ApiResponse) -> str | None:
    if response.error is not None:
        return f"{response.error.code}: {response.error.message}"
    if response.incomplete_details is not None and response.incomplete_details.reason is not None:
        return str(response.incomplete_details.reason)
    return None


def _usage(response: ApiResponse) -> Usage:
    """Return the tokens; a server that counts none has none. Some leave out the details that the SDK promises."""
    usage = response.usage
    if usage is None:
        return Usage()
    cached = getattr(usage.input_tokens_details, "cached_tokens", None)
    reasoning = getattr(usage.output_tokens_details, "reasoning_tokens", None)
    written = getattr(usage.input_tokens_details, "cache_write_tokens", None)
    return Usage(usage.input_tokens or 0, usage.output_tokens or 0, cached or 0, reasoning or 0, written or 0)
