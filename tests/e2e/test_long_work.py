"""Long work over the guide's own endpoint, in both languages: answered in time, waited for, interrupted, whole in the run."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx2
import pytest
from tests.serving import Service, running_service
from tests.waiting import GUARD_S

from cellwright.record.listing import list_runs
from cellwright.record.reader import read_run

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

CLIENT_S = 30.0

PYTHON = """\
# timeout_s=120
import time
for n in range(1, 27):
    print(n)
    time.sleep(1)
end = 'kept'"""
JAVASCRIPT = """\
// timeout_s=120
for (let n = 1; n < 27; n++) {
  console.log(n)
  await new Promise(resolve => setTimeout(resolve, 1000))
}
const end = 'kept'"""


async def test_long_work_is_answered_in_time_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    """Each of these waits for the 24 s after which a call is answered, so they do it beside each other."""
    with running_service(tmp_path / "whole") as service:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(check_killed(tmp_path / "killed"))
            tasks.create_task(check_waited_for(service, "python", PYTHON, "# wait", "log(end)"))
            tasks.create_task(check_waited_for(service, "javascript", JAVASCRIPT, "// wait", "console.log(end)"))
            tasks.create_task(check_interrupted(service))


async def check_waited_for(service: Service, language: str, code: str, wait: str, after: str) -> None:
    await execute(service, language, "1", language)
    *shown, still = await execute(service, language, code, language)
    assert "is still running" in still
    seen = numbers_in(shown)
    assert seen == list(range(1, len(seen) + 1))
    assert 0 < len(seen) < 26
    *more, refused = await execute(service, language, after, language)
    assert refused.startswith("The code of this call was not executed.")
    rest = await execute(service, language, wait, language)
    assert numbers_in(shown + more + rest) == list(range(1, 27))
    assert await execute(service, language, after, language) == ["kept"]


async def check_interrupted(service: Service) -> None:
    await execute(service, "ended", "x = 5")
    await execute(service, "ended", "# timeout_s=600\nimport time\nwhile True: time.sleep(1)")
    said = await execute(service, "ended", "# interrupt")
    assert "The cell was interrupted on request. The Python kernel goes on" in said[-1]
    assert await execute(service, "ended", "log(x)") == ["5"]


async def check_killed(state: Path) -> None:
    """What long work had shown is read after everything was killed."""
    with pytest.raises(AssertionError, match="serve ended with -9"), running_service(state) as service:  # noqa: PT012 - its end says so
        await execute(service, "killed", "1")
        await execute(service, "killed", "# timeout_s=600\nprint('half')\nimport time\ntime.sleep(600)")
        os.kill(service.pid, signal.SIGKILL)
    (found,) = list_runs(state / "runs")
    cell = read_run(Path(found.folder)).cells[-1]
    assert (found.status, cell.status, cell.text) == ("open", "running", "half\n")


async def test_who_waits_for_a_cell_is_answered_when_the_service_is_stopped(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        await execute(service, "stopped", "1")
        waiting = asyncio.ensure_future(execute(service, "stopped", "print('half')\nimport time\ntime.sleep(600)"))
        async with asyncio.timeout(GUARD_S):
            while not await executing(service):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        os.kill(service.pid, signal.SIGTERM)
        half, *_, gone = await waiting
    assert half == "half\n"
    assert gone.endswith("its sandbox ended with it: variables, files and windows are gone.")


async def executing(service: Service) -> bool:
    headers = {"Authorization": f"Bearer {service.token}"}
    async with httpx2.AsyncClient(base_url=service.url, headers=headers, trust_env=False) as client:
        (session,) = (await client.get("/v1/sessions")).json()
    return bool(session["executing"])


def numbers_in(texts: list[str]) -> list[int]:
    words = " ".join(text for text in texts if "running" not in text and "executed" not in text).split()
    return [int(word) for word in words]


async def execute(service: Service, session_id: str, code: str, language: str = "python") -> list[str]:
    headers = {"Authorization": f"Bearer {service.token}"}
    body = {"session_id": session_id, "language": language, "code": code}
    async with httpx2.AsyncClient(base_url=service.url, headers=headers, timeout=CLIENT_S, trust_env=False) as client:
        response = await client.post("/execute", json=body)
    assert response.status_code == 200, response.text
    return [item["text"] for item in response.json()["output"]]
