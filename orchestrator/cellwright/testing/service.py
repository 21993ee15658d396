"""One conformance suite for any server of the computer-use guide's execution contract, other people's too.

Flows in: a URL and a token. Flows out: a `Report`, or a `Nonconformance`. Decided here: what the guide's clients rely
on, checked over HTTP and nothing else.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection
from functools import partial
from typing import Any

import httpx2

from cellwright.testing.report import Check, Report, expect, run_checks

CLIENT_S = 30.0
"""Seconds after which a client of the guide gives up."""


async def check_execution_service(
    url: str,
    token: str | None,
    *,
    languages: Collection[str] = ("python", "javascript"),
    known_gaps: Collection[str] = (),
) -> Report:
    """Put a running execution service through the suite.

    Args:
        url: Where it listens, without `/execute`.
        token: Its bearer token; None when it wants none.
        languages: Which of the two it offers.
        known_gaps: Names of checks that it is known not to pass.

    Raises:
        Nonconformance: A check failed that is no known gap.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=CLIENT_S, trust_env=False) as client:
        service = _Service(client, str(uuid.uuid4()))
        checks: dict[str, Check] = {
            check.__name__.strip("_"): partial(check, service) for check in (_health_is_ready, *_BAD_REQUESTS)
        }
        for language in languages:
            for check in _LANGUAGE[language]:
                checks[check.__name__.strip("_")] = partial(check, service)
        if token is not None:
            checks["a_missing_token_is_refused"] = partial(_a_missing_token_is_refused, service)
            checks["a_wrong_token_is_refused"] = partial(_a_wrong_token_is_refused, service)
        return await run_checks(checks, known_gaps)


class _Service:
    def __init__(self, client: httpx2.AsyncClient, session_id: str) -> None:
        self.client = client
        self.session_id = session_id

    async def output(self, language: str, code: str, session_id: str | None = None) -> list[dict[str, Any]]:
        body = {"session_id": session_id or self.session_id, "language": language, "code": code}
        response = await self.client.post("/execute", json=body)
        expect(response.status_code == 200, f"{code!r} gets status 200, not {response.status_code}: {response.text}")
        output = response.json()["output"]
        expect(isinstance(output, list) and output, "the output is a list that is not empty")
        for item in output:
            _check_item(item)
        return list(output)

    async def texts(self, language: str, code: str, session_id: str | None = None) -> list[str]:
        output = await self.output(language, code, session_id)
        return [item["text"] for item in output if item["type"] == "input_text"]

    async def status(self, **request: Any) -> int:  # noqa: ANN401 - passed on to httpx2
        response = await self.client.post("/execute", **request)
        expect(response.status_code != 200 and response.text, f"it is refused with a sentence: {response.text[:200]!r}")
        return response.status_code


def _check_item(item: dict[str, Any]) -> None:
    match item:
        case {"type": "input_text", "text": str(), **rest} if not rest:
            return
        case {"type": "input_image", "image_url": str(image_url), "detail": "original", **rest} if not rest:
            prefix, _, data = image_url.partition(",")
            expect(prefix == "data:image/png;base64", f"the image is a PNG data URL, not {prefix}")
            expect(base64.b64decode(data, validate=True).startswith(b"\x89PNG"), "its data is a PNG")
        case _:
            raise AssertionError(f"an item of no kind that the clients know: {str(item)[:200]}")


async def _health_is_ready(service: _Service) -> None:
    response = await service.client.get("/health", headers={"Authorization": ""})
    expect(response.status_code == 200, f"/health answers 200 without a token, not {response.status_code}")
    expect(response.json().get("ready") is True, "it says ready")


async def _log_is_exact(service: _Service) -> None:
    expect(await service.texts("python", "log(41 + 1)") == ["42"], "log(41 + 1) gives one item, 42")


async def _python_variables_persist(service: _Service) -> None:
    await service.output("python", "kept = [1, 2]")
    expect(await service.texts("python", "log(kept)") == ["[1, 2]"], "a variable is there in the next call")


async def _python_sessions_are_apart(service: _Service) -> None:
    await service.output("python", "mine = 1")
    said = await service.texts("python", "log('mine' in globals())", uuid.uuid4().hex)
    expect(said == ["False"], "another session does not have it")


async def _a_screenshot_is_displayed(service: _Service) -> None:
    output = await service.output("python", "display(pyautogui.screenshot())")
    expect([item["type"] for item in output] == ["input_image"], "display(screenshot) gives one image")


async def _the_python_namespace_is_there(service: _Service) -> None:
    said = await service.texts("python", "log(pyautogui.FAILSAFE)")
    expect(said == ["True"], "pyautogui is there, with its fail-safe on")
    expect(await service.texts("python", "log(callable(time.sleep))") == ["True"], "time is there")


async def _python_errors_are_outputs(service: _Service) -> None:
    said = await service.texts("python", "log('before')\nraise ValueError('why')")
    expect(said[0] == "before" and "why" in said[-1], "an error is an output, after what came before it")


async def _python_silence_gets_a_sentence(service: _Service) -> None:
    expect(len(await service.texts("python", "pass")) == 1, "a silent cell gives one item")


async def _console_log_is_exact(service: _Service) -> None:
    expect(await service.texts("javascript", "console.log(41 + 1)") == ["42"], "console.log(42) gives one item, 42")


async def _javascript_variables_persist(service: _Service) -> None:
    await service.output("javascript", "globalThis.kept = await Promise.resolve(7)")
    expect(await service.texts("javascript", "console.log(kept)") == ["7"], "globalThis persists; await works")


async def _the_viewport_is_the_guides(service: _Service) -> None:
    code = "console.log(await page.evaluate(() => `${innerWidth}x${innerHeight}`))"
    expect(await service.texts("javascript", code) == ["1440x900"], "the page's viewport is 1440x900")


async def _a_page_is_displayed(service: _Service) -> None:
    output = await service.output("javascript", "display((await page.screenshot()).toString('base64'))")
    expect([item["type"] for item in output] == ["input_image"], "display(base64) gives one image")


async def _what_is_not_json_is_refused(service: _Service) -> None:
    status = await service.status(content=b"{", headers={"Content-Type": "application/json"})
    expect(400 <= status < 500, f"it is the client's fault, not {status}")


async def _wrong_types_are_refused(service: _Service) -> None:
    bodies: tuple[object, ...] = ({}, [], {"session_id": 1, "language": "python", "code": "1"}, _body(service, code=1))
    for body in bodies:
        status = await service.status(json=body)
        expect(400 <= status < 500, f"{body} is the client's fault, not {status}")


async def _an_unknown_language_is_refused(service: _Service) -> None:
    expect(400 <= await service.status(json=_body(service, language="cobol")) < 500, "it is the client's fault")


async def _oversize_code_is_refused(service: _Service) -> None:
    body = _body(service, code="#" * 65 * 1024)
    response = await service.client.post("/execute", json=body)
    expect(response.status_code in {200, 400, 413, 422}, f"65 KiB of code end well, not {response.status_code}")


async def _a_web_page_is_refused(service: _Service) -> None:
    headers = {"Origin": "https://example.com"}
    status = await service.status(json=_body(service), headers=headers)
    expect(status == 403, f"a request with an Origin gets 403, not {status}")


async def _a_missing_token_is_refused(service: _Service) -> None:
    status = await service.status(json=_body(service), headers={"Authorization": ""})
    expect(status == 401, f"no token gets 401, not {status}")


async def _a_wrong_token_is_refused(service: _Service) -> None:
    status = await service.status(json=_body(service), headers={"Authorization": "Bearer " + "x" * 43})
    expect(status == 401, f"a wrong token gets 401, not {status}")


def _body(service: _Service, **changes: object) -> dict[str, object]:
    return {"session_id": service.session_id, "language": "python", "code": "log(1)", **changes}


_BAD_REQUESTS = (
    _what_is_not_json_is_refused,
    _wrong_types_are_refused,
    _an_unknown_language_is_refused,
    _oversize_code_is_refused,
    _a_web_page_is_refused,
)
_LANGUAGE = {
    "python": (
        _log_is_exact,
        _python_variables_persist,
        _python_sessions_are_apart,
        _a_screenshot_is_displayed,
        _the_python_namespace_is_there,
        _python_errors_are_outputs,
        _python_silence_gets_a_sentence,
    ),
    "javascript": (
        _console_log_is_exact,
        _javascript_variables_persist,
        _the_viewport_is_the_guides,
        _a_page_is_displayed,
    ),
}
