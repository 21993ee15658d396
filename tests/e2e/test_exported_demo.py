"""The demo's run, exported: notebook and script each fill in a report of their own, and the application has the same on its disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.desktops import running_desktop
from tests.e2e.conftest import DoneDemo
from tests.e2e.executing import environment_of, executed_notebook, executed_script
from tests.e2e.test_expenses import demo_module

from cellwright.record import read_run
from cellwright.replay.export import export

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


async def test_exported_demo_fills_in_the_report(
    done_demo: DoneDemo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_run(done_demo.run)
    demo = demo_module()
    (tmp_path / "desktop").mkdir()
    async with running_desktop(tmp_path / "desktop") as desktop:
        for form in ("py", "ipynb"):
            folder = tmp_path / form
            folder.mkdir()
            with (folder / f"run.{form}").open("wb") as file:
                export(run, form, file)
            environment = environment_of(folder, desktop.display)
            with demo.application(folder / "application") as url:
                environment |= {"EXPENSES_URL": url}
                if form == "py":
                    done = await executed_script(folder / "run.py", environment)
                    assert done.status == 0, done.errors
                else:
                    await executed_notebook(folder / "run.ipynb", environment, monkeypatch)
            assert demo.faults_of_report(folder / "application") == []
            assert demo.faults_of_sandbox(folder / "work") == []
