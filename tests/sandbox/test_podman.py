"""The podman backend, for real: the way out, what holds, and that nothing is left; see also `test_engines.py`."""

from __future__ import annotations

import subprocess
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


def told_of(name: str, what: str, *, runtime: str) -> str:
    asked = ["podman", "--runtime", runtime, "inspect", "--format", what, name]
    return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


async def test_the_runtime_that_is_asked_for_starts_it_and_removes_it(tmp_path: Path) -> None:
    """The one asked for is a program that notes what it was called for, and is then the real one."""
    called = tmp_path / "called"
    own = tmp_path / "own-runtime"
    own.write_text(f'#!/bin/sh\necho "$@" >>{called}\nexec runc "$@"\n')
    own.chmod(0o755)
    async with Session.open(SMALL.model_copy(update={"runtime": str(own)}), runs=tmp_path / "runs") as session:
        name = name_of("podman", session.info.pid)
        assert told_of(name, "{{.OCIRuntime}}", runtime=str(own)) == str(own)
        assert (await session.execute("log(41 + 1)")).text == "42"
    calls = called.read_text().split()
    assert [word for word in ("create", "start", "delete") if word in calls] == ["create", "start", "delete"]
    assert name not in names("podman")


@pytest.mark.parametrize("runtime", ["no-such-runtime", "/nowhere/no-such-runtime"])
async def test_a_runtime_that_is_not_there_is_replaced_by_no_other(runtime: str) -> None:
    before = names("podman")
    with pytest.raises(SandboxUnavailable, match=f"podman has no runtime {runtime} .* Nothing was started"):
        async with Session.open(SMALL.model_copy(update={"runtime": runtime})):
            pass
    assert names("podman") <= before


async def test_a_runtime_that_hands_no_descriptor_down_is_refused_in_words() -> None:
    """As gVisor's is; nobody could be sure then who made the door."""
    with pytest.raises(
        SandboxUnavailable, match=r"The runtime /bin/true hands no descriptor down .* Nothing was started"
    ):
        async with Session.open(SMALL.model_copy(update={"runtime": "/bin/true"})):
            pass
