"""Clients that hang up, over real sockets and with the real kernels: the cell goes on, and the next call is told all of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest
from tests.e2e.test_long_work import execute, numbers_in
from tests.serving import Service, running_service
from tests.waiting import GUARD_S

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TICKS: dict[str, str] = {
    "python": "# timeout_s=90\nimport time\nfor i in range(8): print('tick', i, flush=True); time.sleep(.5)\nz = 7\nlog('ENDED')",
    "javascript": "// timeout_s=90\nfor (let i = 0; i < 8; i++) { console.log('tick', i); "
    "await new Promise(resolve => setTimeout(resolve, 500)) }\nglobalThis.z = 7; console.log('ENDED')",
}


async def test_a_hang_up_loses_nothing(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        async with asyncio.TaskGroup() as tasks:
            for language in TICKS:
                tasks.create_task(check_waited_for(service, language))
            tasks.create_task(check_told_later(service))
            tasks.create_task(check_interrupted(service))
            tasks.create_task(check_client_that_gives_up(service))


async def check_waited_for(service: Service, language: str) -> None:
    await execute(service, language, "1", language)
    await hangs_up(service, language, TICKS[language], 0.7, language)
    *shown, still, refused = await execute(service, language, "1", language)
    assert ("has not ended yet" in still, refused.startswith("The code of this call was not executed.")) == (True, True)
    rest = await execute(service, language, "# wait", language)
    texts = " ".join([*shown, *rest]).replace("tick", "").split()
    assert texts == [*map(str, range(8)), "ENDED"]
    assert await execute(service, language, "log(z)" if language == "python" else "console.log(z)", language) == ["7"]


async def check_told_later(service: Service) -> None:
    await execute(service, "later", "1")
    code = "import time; print('BEFORE', flush=True); time.sleep(2); log('NOT LOST'); y = 5"
    await hangs_up(service, "later", code, 0.5)
    async with asyncio.timeout(GUARD_S):
        while "later" in await busy(service):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    assert await execute(service, "later", "log(y)") == [
        "Cell 2, for which nobody waited any more, has ended with status ok. What it showed:",
        "BEFORE\n",
        "NOT LOST",
        "This call itself:",
        "5",
    ]


async def check_interrupted(service: Service) -> None:
    await execute(service, "ended", "x = 5")
    await hangs_up(service, "ended", "# timeout_s=600\nimport time\nwhile True: time.sleep(1)", 0.7)
    said = await execute(service, "ended", "# interrupt")
    assert "The cell was interrupted on request. The Python kernel goes on" in said[-1]
    assert await execute(service, "ended", "log(x)") == ["5"]


async def check_client_that_gives_up(service: Service) -> None:
    """The everyday form: the client's own time is over."""
    await execute(service, "gives-up", "1")
    body = {"session_id": "gives-up", "language": "python", "code": TICKS["python"]}
    headers = {"Authorization": f"Bearer {service.token}"}
    async with httpx2.AsyncClient(base_url=service.url, headers=headers, timeout=1.0, trust_env=False) as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.post("/execute", json=body)
    said = await execute(service, "gives-up", "# wait")
    assert numbers_in([text.replace("tick", "") for text in said if text != "ENDED"]) == list(range(8))


async def hangs_up(service: Service, session_id: str, code: str, after_s: float, language: str = "python") -> None:
    content = json.dumps({"session_id": session_id, "language": language, "code": code}).encode()
    host, _, port = service.url.removeprefix("http://").rstrip("/").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /execute HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {service.token}\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.close()
    await writer.wait_closed()


async def busy(service: Service) -> set[str]:
    headers = {"Authorization": f"Bearer {service.token}"}
    async with httpx2.AsyncClient(base_url=service.url, headers=headers, trust_env=False) as client:
        sessions = (await client.get("/v1/sessions")).json()
    return {session["session_id"] for session in sessions if session["executing"]}
