"""The podman backend, for real: the way out, what holds, and that nothing is left; see also `test_engines.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import name_of, names, needs
from tests.sandbox.test_egress import greeter  # noqa: F401 - a fixture
from tests.serving import alive, descendants

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import Limits, Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs("podman")]

PODMAN = Spec(backend="podman")
SMALL = Spec(backend="podman", browser=False)


async def test_a_session_has_both_languages_a_screen_and_files_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from outside")
    spec = PODMAN.model_copy(update={"files": (tmp_path / "in.txt",), "out": tmp_path / "out"})
    async with Session.open(spec, runs=tmp_path / "runs") as session:
        inside = descendants(session.info.pid) | {session.info.pid}
        python = await session.execute("open('out.txt', 'w').write(open('in.txt').read().upper()); log(41 + 1)")
        page = "await page.goto('data:text/html,<title>one</title>'); console.log(await page.title())"
        javascript = await session.execute(page, language="javascript")
        own = await session.execute(
            "import os; log(all('Seccomp:\\t2' in open(f'/proc/{pid}/status').read() for pid in os.listdir('/proc') if pid.isdigit()))",
        )
        png = await session.screenshot()
        name = name_of("podman", session.info.pid)
    assert own.text == "True"
    assert (python.text, javascript.text, png[:8]) == ("42", "one", b"\x89PNG\r\n\x1a\n")
    assert (tmp_path / "out" / "out.txt").read_text() == "FROM OUTSIDE"
    assert len(inside) > 5
    assert alive(inside) == set()
    assert name not in names("podman")


async def test_what_is_allowed_is_reached_and_nothing_else(greeter: int) -> None:  # noqa: F811
    code = f"""
import urllib.request
log(urllib.request.urlopen('http://127.0.0.1:{greeter}/').read().decode())
try: urllib.request.urlopen('http://127.0.0.1:{greeter + 1}/', timeout=5)
except OSError as error: log('refused')
"""
    spec = SMALL.model_copy(update={"allow": (f"127.0.0.1:{greeter}",)})
    async with Session.open(spec) as session:
        assert (await session.execute(code)).text == "hello 127.0.0.1\nrefused"


async def test_memory_holds_for_the_whole_sandbox_and_the_cell_is_told(tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"limits": Limits(memory_bytes=1024**3)})
    hold = "import time; block = bytearray(300_000_000); time.sleep(5)"
    code = f"""
import subprocess, sys
started = [subprocess.Popen([sys.executable, '-c', {hold!r}]) for _ in range(4)]
log(sorted(one.wait() for one in started)[0])
"""
    async with Session.open(spec, runs=tmp_path) as session:
        said = session.info.limits["memory_bytes"]
        if "not enforced for the sandbox as a whole" in said:  # as an ordinary user with groups of version 1
            return
        assert "for the whole sandbox by podman" in said
        cell = await session.execute(code, deadline_s=20)
        assert (await session.execute("log('here')")).text.endswith("here")
    assert cell.text.startswith("-9\n")
    assert "memory limit of 1 GiB was reached" in cell.text


async def test_processes_are_limited(tmp_path: Path) -> None:
    spec = SMALL.model_copy(update={"limits": Limits(processes=100)})
    code = """
import os, signal, time
made = []
try:
    for _ in range(1000):
        child = os.fork()
        if child == 0: time.sleep(20); os._exit(0)
        made.append(child)
except OSError: pass
for one in made: os.kill(one, signal.SIGKILL); os.waitpid(one, 0)
log(0 < len(made) < 100)
"""
    async with Session.open(spec, runs=tmp_path) as session:
        assert (await session.execute(code)).text.splitlines()[-1] == "True"


async def test_without_its_image_nothing_is_started() -> None:
    with pytest.raises(SandboxUnavailable, match=r"Run `bash sandbox_image/build\.sh`"):
        async with Session.open(SMALL.model_copy(update={"image": "localhost/cellwright-nobody:latest"})):
            pass


async def test_without_podman_nothing_runs_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="There is no podman on this machine"):
        async with Session.open(PODMAN):
            pass
