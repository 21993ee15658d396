"""Tasks of other people's making: MiniWoB++ pages, done through `POST /execute` by a client that knows nothing but it.

What is done stands in `miniwob/*.md`, a section for each task. The page itself says whether it was done: its raw reward is 1.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest
from tests.serving import running_service

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SEEDS = ("red", "green")
HANDS = Path(__file__).with_name("miniwob")
TASK_S = 60

Execute = Callable[[str, str], list[str]]
"""Session and code -> the texts that came back."""


def blocks(hand: str) -> dict[str, str]:
    """Task -> code; what is executed before the first task has the name of an empty string."""
    text = (HANDS / f"{hand}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)
    found = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    return {task: "\n".join(re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)) for task, part in found.items()}


def cases() -> Iterator[tuple[str, str, str]]:
    for hand in ("pointer_and_keyboard", "playwright"):
        yield from ((hand, task, seed) for task in blocks(hand) if task for seed in SEEDS)


class Pages(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    """The package's pages, served on loopback; host and port."""
    folder = files("miniwob") / "html"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, directory=str(folder))) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def execute(pages: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Execute]:
    """A client of a real service, whose sandboxes may reach the pages and nothing else."""
    with running_service(tmp_path_factory.mktemp("state"), "--allow", pages) as service:
        headers = {"Authorization": f"Bearer {service.token}"}
        with httpx2.Client(base_url=service.url, headers=headers, timeout=30, trust_env=False) as client:

            def post(session: str, code: str) -> list[str]:
                body = {"session_id": session, "language": "python", "code": code}
                response = client.post("/execute", json=body)
                assert response.status_code == 200, response.text
                return [item["text"] for item in response.json()["output"] if item["type"] == "input_text"]

            for hand in ("pointer_and_keyboard", "playwright"):
                post(hand, blocks(hand)[""])
            yield post


@pytest.mark.parametrize(("hand", "task", "seed"), list(cases()))
def test_task_is_done(execute: Execute, pages: str, hand: str, task: str, seed: str) -> None:
    start = f"Math.seedrandom({seed!r}); core.EPISODE_MAX_TIME = {TASK_S * 1000}; core.startEpisodeReal()"
    execute(hand, f"await page.goto('http://{pages}/miniwob/{task}.html')\nawait page.evaluate({start!r})")
    said = execute(hand, blocks(hand)[task])
    judged = execute(
        hand,
        "import json\n"
        "await page.wait_for_function('WOB_DONE_GLOBAL', timeout=30_000)\n"
        "log(json.dumps(await page.evaluate('[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]')))",
    )
    assert judged == ["[true, 1]"], "\n".join(said)
