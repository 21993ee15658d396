"""A run of a real sandbox, exported: the notebook under Jupyter's own client, the script under plain Python, the page in Chromium.

One run serves all; notebook and script run on the test's own desktop, one after the other, and start the browser themselves.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.async_api import async_playwright
from tests.desktops import running_desktop
from tests.e2e.executing import environment_of, executed_notebook, executed_script
from tests.serving import alive
from tests.waiting import GUARD_S, until

from cellwright.record import Run, read_run
from cellwright.replay.export import export
from cellwright.sandbox.base import Spec
from cellwright.sandbox.runtime import chromium_path
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

CELLS = (
    ("python", "import asyncio\nrows = [int(row) for row in open('rows.csv')]\nrows"),
    ("python", "await page.set_content('<title>T</title><h1>Hello</h1>')\nui.find(role='heading')[0].name"),
    ("python", "display(pyautogui.screenshot(region=(0, 0, 60, 40)))\nbool(screen.settle())"),
    ("javascript", "const total = 12;\nconsole.log(await page.title(), total);\ntotal + 1"),
    ("python", "!echo from a shell; exit 3\n1/0"),
    (
        "python",
        "async def later():\n    await asyncio.sleep(0)\n    return '''of\ntwo lines'''\ntext = asyncio.run(later())",
    ),
    ("javascript", "throw new Error(`no ${total}`)"),
    ("python", "clipboard.write('copied')\nlog(sum(rows), await page.inner_text('h1'), clipboard.read(), text)"),
)
LAST = "12 Hello copied of\ntwo lines"


async def test_notebook_and_script_do_what_the_run_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await recorded(tmp_path)
    for form in ("ipynb", "py", "html"):
        with (tmp_path / f"run.{form}").open("wb") as file:
            export(run, form, file)
    (tmp_path / "desktop").mkdir()
    async with running_desktop(tmp_path / "desktop") as desktop:
        environment = environment_of(tmp_path, desktop.display)
        await check_script(tmp_path / "run.py", environment)
        await check_notebook(tmp_path / "run.ipynb", environment, monkeypatch)
    assert run.cell(len(CELLS)).text == LAST
    await until(lambda: not left_running(tmp_path))  # the last of them end when the kernel has
    async with asyncio.timeout(2 * GUARD_S):
        await check_pages(tmp_path, run)


async def recorded(folder: Path) -> Run:
    (folder / "rows.csv").write_text("3\n4\n5\n")
    async with Session.open(Spec(files=(folder / "rows.csv",)), runs=folder / "runs") as session:
        for language, code in CELLS:
            await session.execute(code, language=language)  # type: ignore[arg-type]
    return read_run(session.run_dir)


async def check_script(script: Path, environment: Mapping[str, str]) -> None:
    done = await executed_script(script, environment)
    picture = script.parent / "work" / "run-pictures" / "1.png"
    assert done.said.splitlines() == [
        "[3, 4, 5]",
        "'Hello'",
        f"[picture of 60x40: {picture}]",
        "True",
        "T 12",
        "13",
        "from a shell",
        *LAST.splitlines(),
    ], done.errors
    assert done.status == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [line for line in done.errors.splitlines() if "Error" in line] == [
        "ZeroDivisionError: division by zero",
        "cellwright_kernel.runtime.javascript.JavaScriptError: Error: no 12",
    ]


async def check_notebook(file: Path, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = outputs_of(nbformat.read(file, as_version=4))
    after = outputs_of(await executed_notebook(file, environment, monkeypatch))
    assert after["cell-8"] == before["cell-8"] == [("stdout", f"{LAST}\n")]
    same = ("cell-1", "cell-2", "cell-3", "cell-6")
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert [kind for kind, _ in after["cell-3"]] == ["image/png", "result"]
    assert after["cell-4"] == [("stdout", "T 12\n13\n")]
    assert [kind for kind, _ in after["cell-5"]] == ["stdout", "error"]
    assert after["cell-7"][0][1].startswith("JavaScriptError: Error: no 12")


def outputs_of(book: Any) -> dict[str, list[tuple[str, str]]]:
    """Cell -> kind and text of what it showed, without our own sentences, which are on stderr.

    Pieces of one stream are one, and of a picture only that it is there.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for cell in book.cells:
        outputs = found.setdefault(cell.id, [])
        for kind, text in map(kind_and_text, cell.get("outputs", ())):
            if kind == "stderr":
                continue
            before = outputs.pop()[1] if outputs and outputs[-1][0] == kind == "stdout" else ""
            outputs.append((kind, before + text))
    return found


def kind_and_text(output: Any) -> tuple[str, str]:
    match output.output_type:
        case "stream":
            return output.name, output.text
        case "error":
            return "error", f"{output.ename}: {output.evalue}"
        case "execute_result":
            return "result", output.data["text/plain"]
        case _:
            (kind,) = output.data.keys() - {"text/plain"}
            return kind, "a picture" if base64.b64decode(output.data[kind]) else ""


def left_running(folder: Path) -> set[int]:
    """Ids of processes that have the folder in their environment: whatever the exported run had started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HOME={folder}".encode() in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return alive(found)


async def check_pages(folder: Path, run: Run) -> None:
    """The policy of each page lets through what is ours, and the slider moves."""
    command = ("-m", "cellwright", "replay", run.folder, "--keep-going", "--report", folder / "report.html")
    replaying = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
    assert await replaying.wait() in {0, 1}  # whether all is the same, others test
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        page = await browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        await page.goto(f"file://{folder}/run.html")
        assert await page.evaluate("getComputedStyle(document.body).maxWidth") == "1180px"
        assert (await page.inner_text("#cell-1")).startswith("cell 1, Python: ok in ")
        sizes = """Promise.all([...document.images].map(async image => {
            image.loading = 'eager';  // else one that is out of sight is never there
            await image.decode();
            return image.naturalWidth;
        }))"""
        widths = await page.evaluate(sizes)
        assert widths[0] == 1440
        assert 60 in widths
        await page.goto(f"file://{folder}/report.html")
        assert await page.locator("section h2").count() == len(CELLS)
        await page.click("details summary")
        slider = page.locator("input[type=range]").first
        await slider.fill("20")
        cut = await page.locator(".over").first.evaluate("over => getComputedStyle(over).clipPath")
        assert cut == "inset(0px 80% 0px 0px)"
        assert complaints == []
        await browser.close()
