"""A task of fifteen turns, each with a screenshot: our loop, and the guide's around `POST /execute`, at one model server.

Flows in: nothing. Flows out: rows: seconds, requests, kilobytes and tokens of pictures. Decided here: that both ask in the way that sends
the least, chained by `previous_response_id` and not streamed; that both have a new session each time, in which one cell was
executed, with a page of its own, which is another one at each turn; that pages are of two sizes, since a screenshot is
carried by everybody on its way; and that tokens of pictures are those which the model reads, whether they were sent with this request or
are kept by the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

import httpx2
from pydantic import JsonValue

from cellwright.bench.rows import Row
from cellwright.bench.service import Printed, answered, ended, service
from cellwright.errors import EnvironmentMissing
from cellwright.estimate import picture_tokens
from cellwright.record import read_run
from cellwright.record.records import ModelRequest

TURNS: Final = 15
TIMES: Final = 5
_READY_S: Final = 30.0
_LOOKS: Final = """
screen.settle()
display(pyautogui.screenshot())
"""
_PAGES: Final = {
    "a page of text": (
        "words = 'Lorem ipsum dolor sit amet consectetur adipiscing elit'.split()\n"
        "said = [' '.join(words[(row * place + {turn}) % 8] for place in range(60)) for row in range(30)]\n"
        "await page.set_content('<h1>{turn}</h1>' + ''.join(f'<p>{{one}}</p>' for one in said))"
    ),
    "an almost empty page": "await page.set_content(\"<h1 style='font-size: 90px'>{turn}</h1>\")",
}
"""What a cell shows, by what it is: PNGs of 200 kB, and of 36 kB."""
_CHAINED: Final = "the guide's loop around POST /execute, chained"
_TASK: Final = "Look at each page."


@dataclass(frozen=True)
class Took:
    """What one run took."""

    seconds: float
    requests: int
    sent_bytes: int
    picture_tokens: int


def measure() -> list[Row]:
    """Measure; takes about 80 s.

    Raises:
        EnvironmentMissing: A session, the service or the model server did not come up.
    """
    return [row for what, page in _PAGES.items() for row in _rows(what, page)]


def _rows(shown: str, page: str) -> list[Row]:
    with _emulator(page) as base_url, service() as execution:
        guides, ours = [], []
        for _ in range(TIMES + 1):
            guides.append(_guides(base_url, execution, page))
            ours.append(asyncio.run(_ours(base_url, page)))
    del guides[0], ours[0]  # whoever comes first has the model server and the SDK load what they need
    seconds = [median(took.seconds for took in many) for many in (ours, guides)]
    ratio = round(median(one.seconds / other.seconds for one, other in zip(ours, guides, strict=True)), 2)
    one, other = ours[0], guides[0]
    what = f"{TURNS} turns with a screenshot of {shown}"
    return [
        Row(what=what, ours=round(seconds[0], 2), baseline=round(seconds[1], 2), unit="s", stock=_CHAINED, ratio_of_turns=ratio),
        Row(what=f"{what}, requests", ours=one.requests, baseline=other.requests, unit="requests", stock=_CHAINED),
        Row(what=f"{what}, sent", ours=one.sent_bytes // 1000, baseline=other.sent_bytes // 1000, unit="kB", stock=_CHAINED),
        Row(
            what=f"{what}, pictures read",
            ours=one.picture_tokens,
            baseline=other.picture_tokens,
            unit="tokens",
            stock=_CHAINED,
        ),
    ]  # fmt: skip


@contextmanager
def _emulator(page: str) -> Iterator[str]:
    """Play the script in a process of its own, as both sides would ask a server elsewhere; give its address."""
    turns = [f"```python\n{_looks(page, turn)}```" for turn in range(1, TURNS + 1)]
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as folder:
        script = Path(folder) / "script.md"
        script.write_text("\n---\n".join([*turns, "All pages were seen."]))
        command = [sys.executable, "-m", "cellwright", "emulate", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=os.environ) as process:
            try:
                printing, said = Printed("`cellwright emulate`", process), ""
                while (line := printing.line(_READY_S)) != "ready":
                    said += line
                url = re.search(r"http://[\w.:]+/v1", said)
                yield url.group() if url else ""
            finally:
                process.terminate()
                ended(process)


def _looks(page: str, turn: int) -> str:
    return page.format(turn=turn) + _LOOKS


async def _ours(base_url: str, page: str) -> Took:
    from cellwright.loop import drive  # noqa: PLC0415 - loads openai: 0.5 s
    from cellwright.model import sent  # noqa: PLC0415
    from cellwright.model.asking import Asking  # noqa: PLC0415
    from cellwright.model_server import model_at  # noqa: PLC0415
    from cellwright.session import Session  # noqa: PLC0415

    bodies: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as runs:
        model = model_at("m", base_url=base_url, api_key="k", asking=Asking(chains=True, streams=False))
        sent.observers.append(bodies.append)  # counted once the time is taken
        try:
            async with Session.open(driver="loop", task=_TASK, model=model.name, runs=Path(runs)) as session:
                await session.execute(_looks(page, 0))
                began = time.perf_counter()
                outcome = await drive(session, model, _TASK)
                seconds = time.perf_counter() - began
        finally:
            sent.observers.remove(bodies.append)
            await model.close()
        if outcome.status != "done":
            raise EnvironmentMissing(f"Our loop ended as {outcome.status}: {outcome.reason} Nothing was measured.")
        asked = [one for one in read_run(outcome.run_dir).records if isinstance(one, ModelRequest)]
        return Took(
            seconds,
            len(asked),
            sum(len(json.dumps(body)) for body in bodies),
            sum(one.image_patches or 0 for one in asked),
        )


def _guides(base_url: str, execution: httpx2.Client, page: str) -> Took:
    """Do it as the guide's client in Python does: one request a turn, one execution a call, until there is no call."""
    import openai  # noqa: PLC0415 - 0.5 s

    session_id = uuid.uuid4().hex
    answered(execution, session_id, "python", _looks(page, 0))
    bodies: list[int] = []
    http = openai.DefaultHttpxClient(
        trust_env=False, event_hooks={"request": [lambda request: bodies.append(len(request.content))]}
    )
    tool: Any = {
        "type": "function",
        "name": "exec_py",
        "description": "Execute Python on the desktop.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
            "additionalProperties": False,
        },
    }
    with openai.OpenAI(base_url=base_url, api_key="k", http_client=http) as client:
        began = time.perf_counter()
        tokens, read = 0, 0
        response = client.responses.create(model="m", tools=[tool], input=_TASK)
        while calls := [item for item in response.output if item.type == "function_call"]:
            answers: list[Any] = []
            for call in calls:
                output = _executed(execution, session_id, json.loads(call.arguments)["code"])
                read += _pictures_in(output)
                answers.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
            tokens += read
            response = client.responses.create(
                model="m", tools=[tool], input=answers, previous_response_id=response.id
            )  # fmt: skip
        took = Took(time.perf_counter() - began, len(bodies), sum(bodies), tokens)
    execution.delete(f"/v1/sessions/{session_id}")
    return took


def _executed(execution: httpx2.Client, session_id: str, code: str) -> list[dict[str, JsonValue]]:
    reply = execution.post("/execute", json={"session_id": session_id, "language": "python", "code": code})
    if reply.status_code != 200:
        raise EnvironmentMissing(f"A cell was not executed: {reply.text[:500]} Run `cellwright doctor`.")
    return cast("list[dict[str, JsonValue]]", reply.json()["output"])


def _pictures_in(output: list[dict[str, JsonValue]]) -> int:
    return sum(picture_tokens(str(item["image_url"])) for item in output if item["type"] == "input_image")
