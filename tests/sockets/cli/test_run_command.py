"""`cellwright run` and `cellwright emulate` as a person types them: used wrongly, and over a real port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.waiting import GUARD_S

from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.loop import run
from cellwright.testing.fake_sandbox import FakeBackend

CELLWRIGHT = [sys.executable, "-c", "from cellwright.cli.main import main; main()"]


def cellwright(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CELLWRIGHT, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "Do it."], "OPENAI_API_KEY"),
        (["run", " ", "--base-url", "http://127.0.0.1:9/v1"], "The task is empty"),
        (["run", "Do it.", "--emulate", "/nowhere.md"], "cannot be read"),
        (["run", "Do it.", "--emulate", "x", "--base-url", "http://x/v1"], "Give one of them"),
        (["run", "Do it.", "--file", "/nowhere.csv"], "no such file"),
        (["run", "Do it.", "--size", "big"], "1440x1000"),
        (["run", "Do it.", "--env", "1=2"], "not the name of a variable"),
        (["run", "Do it.", "--env", "CELLWRIGHT_IS_NOT_SET"], "not set here"),
        (["emulate", "/nowhere.md"], "cannot be read"),
        (["emulate", "--run", "/nowhere/"], "/nowhere"),
        (["emulate", "/nowhere.md", "--fault", "nothing"], "cannot be read"),
    ],
)
def test_used_wrongly_is_status_2_and_one_line(words: list[str], said: str):
    ended = cellwright(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.fixture
async def recorded() -> Path:
    async with Emulator(Script.parse("Hello.")) as server:
        return (await run("Hi.", base_url=server.base_url, api_key="k", backend=FakeBackend())).run_dir


@pytest.fixture(params=["script", "run"])
def emulator(request: pytest.FixtureRequest, tmp_path: Path, recorded: Path) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "script.yaml"
    script.write_text("turns: [{say: Hello.}]")
    played = [str(script)] if request.param == "script" else ["--run", f"{recorded}/"]
    words = ["emulate", *played, "--fault", "overloaded", "--requests-per-second", "2"]
    with subprocess.Popen([*CELLWRIGHT, *words], stdout=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


@pytest.mark.slow
def test_emulate_says_where_it_is_serves_and_ends_with_ctrl_c(emulator: subprocess.Popen[str]):
    assert emulator.stdout is not None
    lines = [emulator.stdout.readline().strip() for _ in range(4)]
    assert lines[3] == "ready"
    base_url = lines[1].removeprefix("export OPENAI_BASE_URL=")
    key = lines[2].removeprefix("export OPENAI_API_KEY=")
    answers = [
        httpx2.post(
            f"{base_url}/responses",
            json={"model": "m", "input": "Hi."},
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
        )
        for _ in range(2)
    ]
    assert answers[0].status_code == 529
    assert answers[1].json()["output"][1]["content"][0]["text"] == "Hello."
    os.kill(emulator.pid, signal.SIGINT)
    assert emulator.wait(GUARD_S) == 0
