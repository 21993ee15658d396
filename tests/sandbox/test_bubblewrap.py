"""The bubblewrap backend, for real: the conformance suite, and what a cell can see of the machine."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.serving import alive, descendants

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import Spec
from cellwright.sandbox.bubblewrap import BubblewrapBackend
from cellwright.session import Session
from cellwright.testing.backend import check_backend
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


async def test_it_conforms_without_a_gap() -> None:
    report = await check_backend(BubblewrapBackend)
    assert report.known_gaps == ()


async def test_closing_leaves_no_process_and_no_folder() -> None:
    before = descendants(os.getpid())
    async with Session.open() as session:
        cell = await session.execute("import subprocess; p = subprocess.Popen(['setsid', 'sleep', '4321']); log(1)")
        assert cell.text == "1"
        ours = descendants(os.getpid()) - before
        assert len(ours) > 5
    assert alive(ours) == set()


async def test_without_bubblewrap_nothing_runs_unisolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("bwrap") is None
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        async with Session.open():
            pass


async def test_the_desktop_has_the_size_that_was_asked_for() -> None:
    async with Session.open(Spec(width=1000, height=800)) as session:
        cell = await session.execute("log(pyautogui.size()); display(pyautogui.screenshot())")
        assert cell.text == "Size(width=1000, height=800)"
        assert [(image.width, image.height) for image in cell.images] == [(1000, 800)]


async def test_a_path_of_the_models_own_leads_only_the_model_astray() -> None:
    async with Session.open(Spec(env={"PATH": "/nope"})) as session:
        python = await session.execute("import os, shutil; log(os.environ['PATH']); log(shutil.which('ls'))")
        javascript = await session.execute("console.log(process.env.PATH.split(':')[0])", language="javascript")
    assert (python.text, javascript.text) == ("/nope\nNone", "/nope")


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import subprocess; subprocess.run(['sleep', '600'])"),
        ("javascript", "require('node:child_process').execSync('sleep 600')"),
    ],
)
async def test_cells_are_interrupted_even_where_whoever_starts_the_sandbox_ignores_interrupts(
    language: Language, code: str
) -> None:
    """As a script does with what it starts with `&`."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        async with Session.open(Spec()) as session:
            cell = await session.execute(code, language=language, deadline_s=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (cell.status, cell.rung) == ("timeout", "interrupt")
