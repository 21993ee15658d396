"""An exported script under plain Python, where there is no display: what its cells print, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAD = """\
from cellwright_kernel.runtime import Script

_cw = Script(globals(), "javascript", files={"in/rows.csv": "MQoy"})
"""
CELLS = '''
@_cw.cell
async def _cell_1():
    global asyncio, later, rows
    import asyncio
    rows = open("in/rows.csv").read().split()
    async def later():
        await asyncio.sleep(0)
        return rows
    _cw.show((await later()))

@_cw.cell(may_fail=True, limit_s=0.2)
async def _cell_2():
    while True: pass

@_cw.cell(may_fail=True, limit_s=0.2)
async def _cell_3():
    await asyncio.Event().wait()

_cw.javascript(r"""
let n = 41;
setTimeout(() => console.log('late'), 1);
await new Promise(done => setTimeout(done, 20));
n + 1
""")

_cw.javascript(r"""
for (;;);
""", may_fail=True, limit_s=0.5)

_cw.ipython(r"""
from os.path import *
here = !echo from a shell
basename(here[0])
""")

@_cw.cell
async def _cell_7():
    log(asyncio.run(later()), "and", n := 3)
    rows[5]

@_cw.cell
async def _cell_8():
    log("never")

if __name__ == "__main__":
    _cw.run()
'''


def test_cells_share_variables_end_as_they_did_and_the_first_new_error_ends_the_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(HEAD + CELLS)
    done = run(tmp_path)
    assert done.stdout.splitlines() == ["['1', '2']", "late", "42", "'from a shell'", "['1', '2'] and 3"], done.stderr
    assert done.returncode == 1
    told = [
        line
        for line in done.stderr.splitlines()
        if line and not line.startswith((" ", "Traceback", "During", "The above"))
    ]
    assert [line for line in told if "Cancelled" not in line] == [
        "TimeoutError: The cell was ended after 0.2 s, as in the run.",
        "TimeoutError",
        "TimeoutError",
        "IndexError: list index out of range",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "script.py"]


@pytest.mark.parametrize(
    ("needs", "files", "says"),
    [
        ('"page"', "{}", "ValueError: 'page' is no part of the runtime."),
        ('"screen"', "{}", "RuntimeError: These cells use screen, and DISPLAY names no display. Nothing has run."),
        ("", '{"../x": ""}', "ValueError: '../x' leads out of the current folder. It was not written."),
        ("", '{"/etc/x": ""}', "ValueError: '/etc/x' leads out of the current folder. It was not written."),
    ],
)
def test_what_cannot_be_prepared_is_said_before_a_cell_runs(tmp_path: Path, needs: str, files: str, says: str) -> None:
    call = f"_cw = Script(globals(), {needs}{', ' if needs else ''}files={files})\n_cw.ipython('log(1)')\n_cw.run()\n"
    (tmp_path / "script.py").write_text(HEAD.splitlines()[0] + "\n" + call)
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith(says)


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    command = [sys.executable, "script.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
