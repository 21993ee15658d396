"""A server of the Responses API that can do exactly what a profile says, and refuses the rest with a 400, as strict ones do.

Its model is of the simplest kind: it says all words that it was told, and the name of each picture's colour. What it is
asked with is held against the SDK's own types first.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import AsyncIterator, Iterator

from PIL import Image
from pydantic import JsonValue
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, StreamingResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from cellwright.emulator.sdk_types import check
from cellwright.model.profile import Profile
from tests.front import Front

Item = dict[str, JsonValue]


class Unable(Exception):
    """The profile says that it cannot."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


class AbleServer(Front):
    """Can do what its profile says."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self.profile = profile
        self.stored: dict[str, list[Item]] = {}
        self._numbers = itertools.count(1)

    def routes(self) -> list[Route]:
        more = (
            [Route("/v1/responses/compact", self._compact, methods=["POST"])] if self.profile.compact_endpoint else []
        )
        return [*super().routes(), *more]

    async def _compact(self, request: HttpRequest) -> HttpResponse:
        await request.body()
        return JSONResponse({"id": "resp_c", "object": "response.compaction", "output": []})

    async def answer(self, body: dict) -> HttpResponse:
        check(body)
        try:
            before = self._before(body)
            history = [*before, *body["input"]]
            self._must_be_able(body, body["input"])
        except Unable as unable:
            said = {"message": str(unable), "type": "invalid_request_error", "param": unable.param, "code": unable.code}
            return JSONResponse({"error": said}, unable.status)
        response = self._response(history)
        if body.get("store") is not False:
            self.stored[response["id"]] = [*history, *response["output"]]
        if body.get("stream"):
            return StreamingResponse(_events(response), media_type="text/event-stream")
        return JSONResponse(response)

    def _before(self, body: Item) -> list[Item]:
        previous = body.get("previous_response_id")
        if previous is None:
            return []
        if not self.profile.chaining or previous not in self.stored:
            raise Unable(
                f"Previous response with id '{previous}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return self.stored[str(previous)]

    def _must_be_able(self, body: Item, items: list[Item]) -> None:
        profile = self.profile
        tools = body.get("tools") or []
        parts = [(item, index, part) for item in items for index, part in enumerate(_parts(item))]
        pictures = [
            (f"input[{items.index(item)}].{'output' if 'output' in item else 'content'}[{index}].image_url", item, part)
            for item, index, part in parts
            if part.get("type") == "input_image"
        ]
        in_answers = [item for _, item, _ in pictures if "output" in item]
        refused = {
            "stream": body.get("stream") and not profile.streaming,
            "store": "store" in body and not profile.store_flag,
            "tool_choice": "tool_choice" in body and not profile.tool_choice,
            "parallel_tool_calls": "parallel_tool_calls" in body and not profile.parallel_flag,
            "prompt_cache_key": "prompt_cache_key" in body and not profile.cache_key,
            "context_management": "context_management" in body and not profile.compaction,
            "tools.strict": any(tool.get("strict") for tool in tools) and not profile.strict_tools,
            "custom": not profile.custom_tools
            and (any(t["type"] == "custom" for t in tools) or any("custom" in str(i.get("type")) for i in items)),
            "phase": any("phase" in item for item in items) and not profile.phase,
            "encrypted_content": not profile.encrypted_reasoning
            and ("include" in body or any("encrypted_content" in item for item in items)),
            "output of tool call should be input text": in_answers and profile.tool_images == "follow_up",
            "image": pictures and profile.tool_images == "none",
            "too many images": profile.max_images is not None and len(pictures) > profile.max_images,
        }
        for what, is_refused in refused.items():
            if is_refused:
                raise Unable(f"Not supported here: {what}.")
        for where, _, part in pictures:
            side = max(picture(part).size)
            if profile.max_image_side is not None and side > profile.max_image_side:
                raise Unable(f"The image has {side} pixels a side.", code="image_too_large", param=where)

    def _response(self, history: list[Item]) -> dict:
        number = next(self._numbers)
        sealed = [{"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbGVk"}]
        content = [{"type": "output_text", "text": " ".join(_words(history)), "annotations": []}]
        message = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": "m",
            "output": [*(sealed if self.profile.encrypted_reasoning else []), message],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }


def picture(part: Item) -> Image.Image:
    """Return the picture of a part, its pixels not read yet."""
    data = base64.b64decode(str(part["image_url"]).partition(",")[2])
    return Image.open(io.BytesIO(data))


def _parts(item: Item) -> list[Item]:
    listed = item.get("output", item.get("content"))
    return [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []


def _words(history: list[Item]) -> Iterator[str]:
    for item in history:
        for name in ("output", "content"):
            if isinstance(item.get(name), str):
                yield str(item[name])
        for part in _parts(item):
            if part.get("type") == "input_image":
                red, green, blue = picture(part).convert("RGB").getpixel((0, 0))
                yield "red" if red > max(green, blue) else "another colour"
            else:
                yield str(part.get("text") or "")


async def _events(response: dict) -> AsyncIterator[str]:
    for kind in ("created", "completed"):
        event = {"type": f"response.{kind}", "response": response, "sequence_number": 0}
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
