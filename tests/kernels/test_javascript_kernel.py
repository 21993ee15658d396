"""The JavaScript kernel as a process: how it dies, how it is stopped, what it may send, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernels.playing_cells import Said, kernels_in, play
from tests.waiting import until

from cellwright_kernel import processes
from cellwright_kernel.kernels import Kernels

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SAY_BUSY = "require('fs').writeFileSync('busy', '')"
"""JavaScript that lets a test see that it has come so far."""


class Cells:
    """Executes JavaScript cells, numbered from 1."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.number = 0
        self.status = ""
        self.generation = 0

    async def run(self, code: str, deadline_s: float = 10.0) -> list[Said]:
        self.number += 1
        says, closed = await play(self.kernels, "javascript", code, self.number, deadline_s)
        self.status, self.generation = closed.status, closed.kernel_generation
        return says


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cells]:
    """A kernel for all cells that leave it as it was."""
    folder = tmp_path_factory.mktemp("shared")
    async with kernels_in(folder) as kernels:
        await kernels.start("javascript")
        yield Cells(kernels)
    await until(lambda: not nodes_of(folder))


@pytest_asyncio.fixture(loop_scope="module")
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    async with kernels_in(tmp_path) as kernels:
        await kernels.start("javascript")  # its start is no part of any cell's deadline
        yield Cells(kernels)
    await until(lambda: not nodes_of(tmp_path))


@pytest_asyncio.fixture(loop_scope="module")
async def cells_in_little_memory(tmp_path: Path) -> AsyncIterator[Cells]:
    async with kernels_in(tmp_path, {"NODE_OPTIONS": "--max-old-space-size=150"}) as kernels:
        await kernels.start("javascript")
        yield Cells(kernels)


def nodes_of(folder: Path) -> list[int]:
    """Processes that run our Node in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = b"/javascript/runner.cjs" in (process / "cmdline").read_bytes()
            if (
                is_ours
                and (process / "cwd").readlink().is_relative_to(folder)
                and processes.is_alive(int(process.name))
            ):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_at_rest(pid: int) -> bool:
    """Whether a process has taken its signals, and waits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    return (found["State"], int(found["SigPnd"], 16), int(found["ShdPnd"], 16)) == ("S", 0, 0)


def texts(says: list[Said], source: str) -> list[str]:
    return [one[source] for one in says if source in one]


async def test_a_full_heap_ends_the_kernel_and_says_so(cells_in_little_memory: Cells) -> None:
    cells = cells_in_little_memory
    says = await cells.run(
        "console.log('before'); const big = []; for (;;) big.push(new Array(1e5).fill(Math.random()))"
    )
    assert cells.status == "kernel_died"
    assert texts(says, "log") == ["before"]
    assert texts(says, "stderr") == []
    heap, died = texts(says, "notice")
    assert heap.startswith("Node ended because its heap was full")
    assert "ended by SIGABRT" in died
    assert await cells.run("typeof big") == [{"result": "'undefined'"}]
    assert cells.generation == 2


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("process.abort()", "was ended by SIGABRT"),
        ("process.kill(process.pid, 'SIGKILL')", "was ended by SIGKILL"),
        ("process.reallyExit(4)", "exited with status 4"),
    ],
)
async def test_the_kernel_ends_as_its_node_did(cells: Cells, code: str, how: str) -> None:
    says = await cells.run(f"process.stdout.write('said'); {code}")
    assert (cells.status, texts(says, "stdout")) == ("kernel_died", ["said"])
    assert how in texts(says, "notice")[-1]
    assert await cells.run("1") == [{"result": "1"}]


async def test_node_dies_with_its_kernel_even_in_an_endless_loop(cells: Cells, tmp_path: Path) -> None:
    (node,) = nodes_of(tmp_path)
    running = asyncio.create_task(cells.run(f"{SAY_BUSY}; while (true);"))
    await until((tmp_path / "home" / "busy").exists)
    os.kill(parent_of(node), signal.SIGKILL)
    await until(lambda: not processes.is_alive(node))
    await running
    assert cells.status == "kernel_died"


async def test_a_broken_native_module_is_an_error(shared: Cells) -> None:
    says = await shared.run("require('fs').writeFileSync('broken.node', 'x'); require('./broken.node')")
    assert (shared.status, "ERR_DLOPEN_FAILED" in says[0]["error"]) == ("error", True)


async def test_an_interrupt_on_request_keeps_variables(cells: Cells, tmp_path: Path) -> None:
    running = asyncio.create_task(cells.run(f"let seen = 7; {SAY_BUSY}; while (true);"))
    await until((tmp_path / "home" / "busy").exists)
    assert cells.kernels.interrupt("javascript")
    await running
    assert cells.status == "interrupted"
    assert await cells.run("seen") == [{"result": "7"}]
    assert cells.generation == 1


async def test_a_child_that_dies_of_an_interrupt_before_the_kernel_has_its_turn_is_no_error_of_the_cell(
    cells: Cells, tmp_path: Path
) -> None:
    (node,) = nodes_of(tmp_path)
    kernel = parent_of(node)
    later = "if (++turns === 3) require('fs').writeFileSync('later', '')"  # turns after the one in which it fails
    running = asyncio.create_task(
        cells.run(f"let turns = 0; setInterval(() => {{ {later} }}, 1); require('child_process').execSync('sleep 62')")
    )
    await until(lambda: "sleep" in [process.name for process in processes.of_kernel(kernel, "")])
    os.kill(kernel, signal.SIGSTOP)
    try:
        assert cells.kernels.interrupt("javascript")
        await until((tmp_path / "home" / "later").exists)
    finally:
        os.kill(kernel, signal.SIGCONT)
    assert texts(await running, "error") == ["Interrupted: the cell was stopped"]
    assert cells.status == "interrupted"


async def test_interrupts_between_cells_hit_nobody(cells: Cells, tmp_path: Path) -> None:
    (node,) = nodes_of(tmp_path)
    for _ in range(20):
        os.kill(parent_of(node), signal.SIGINT)
    await until(lambda: is_at_rest(parent_of(node)))
    assert await cells.run("2") == [{"result": "2"}]


async def test_a_cell_behind_an_endless_timer_of_another_is_answered(cells: Cells, tmp_path: Path) -> None:
    home = tmp_path / "home"
    round_ = f"if (!require('fs').existsSync('go')) return setTimeout(round, 1); {SAY_BUSY}; while (true);"
    await cells.run(f"setTimeout(function round() {{ {round_} }}, 1); undefined")
    (home / "go").touch()
    await until((home / "busy").exists)
    await cells.run("1", deadline_s=0.3)
    assert cells.status == "timeout"
    assert await cells.run("'alive'") == [{"result": "'alive'"}]
    assert cells.generation == 1


async def test_a_cell_that_interrupts_cannot_stop_is_ended_with_its_kernel(cells: Cells) -> None:
    """A regular expression that backtracks without end heeds interrupts; native code that blocks does not."""
    says = await cells.run(
        "require('fs').readSync(require('fs').openSync('/dev/ptmx', 'r+'), Buffer.alloc(1))", deadline_s=0.3
    )
    assert (cells.status, "it was killed" in texts(says, "notice")[-1]) == ("timeout", True)
    assert await cells.run("1") == [{"result": "1"}]
    assert cells.generation == 2


async def test_a_catastrophic_regular_expression_is_stopped(cells: Cells) -> None:
    await cells.run(f"/^(a+)+$/.test('{'a' * 40}b')", deadline_s=0.3)
    assert (cells.status, cells.generation) == ("timeout", 1)
    assert await cells.run("1") == [{"result": "1"}]


async def test_a_hundred_megabytes_are_bounded_and_the_end_is_kept(shared: Cells) -> None:
    says = await shared.run(
        "for (let i = 0; i < 100; i++) process.stdout.write('x'.repeat(1e6)); process.stdout.write('END'); 0"
    )
    (text,) = texts(says, "stdout")
    assert text.endswith("xEND")
    assert "of 100,000,003 characters are left out" in text
    assert len(text) <= 12_000


async def test_many_lines_are_all_counted(shared: Cells) -> None:
    says = await shared.run("for (let i = 0; i < 5000; i++) console.log('line', i)")
    logged = texts(says, "log")
    assert (logged[0], logged[-1]) == ("line 0", "line 4999")
    assert any("4,9" in notice for notice in texts(says, "notice"))


async def test_a_big_string_is_shown_cut(shared: Cells) -> None:
    (said,) = await shared.run("'x'.repeat(1e7)")
    assert said["result"].startswith("'xxx")
    assert len(said["result"]) < 12_000
    (logged,) = await shared.run("console.log('x'.repeat(1e7))")
    assert "of 10,000,000 characters are left out" in logged["log"]


@pytest.mark.parametrize(
    ("code", "status", "source", "says"),
    [
        ("'x'.repeat(400 << 20)", "ok", "result", ("'xxx", "... 419420400 more characters")),
        ("0\n'x'.repeat(400 << 20) // so long", "ok", "result", ("'xxx", "... 419420400 more characters")),
        (
            "new Error('x'.repeat(1e8))",
            "ok",
            "result",
            ("Error: xxx", "... 99990007 more characters\n    at <cell 1>:1:1"),
        ),
        (
            "Symbol('x'.repeat(1e8))",
            "ok",
            "result",
            ("Symbol(xxx", "99,988,408 of 100,000,008 characters are left out"),
        ),
        ("display('x'.repeat(1e8))", "ok", "display", ("xxx", "99,988,400 of 100,000,000 characters are left out")),
        (
            "throw new Error('x'.repeat(2e8))",
            "error",
            "error",
            ("Error: xxx", "... 199990007 more characters\n    at <cell 1>:1:7"),
        ),
        (
            "await Promise.reject(new RangeError('x'.repeat(1e8)))",
            "error",
            "error",
            ("RangeError: xxx", "... 99990012 more"),
        ),
        (
            "Promise.reject(new Error('x'.repeat(1e8))); undefined",
            "ok",
            "stderr",
            ("Unhandled", "... 99990007 more characters"),
        ),
    ],
)
async def test_what_is_huge_is_cut_before_it_is_copied(
    shared: Cells, code: str, status: str, source: str, says: tuple[str, str]
) -> None:
    before = shared.generation or 1
    said = await shared.run(code, deadline_s=4)
    assert shared.status == status
    (text,) = texts(said, source)
    assert text.startswith(says[0])
    assert says[1].replace("<cell 1>", f"<cell {shared.number}>") in text
    assert len(text) <= 12_000
    assert await shared.run("1 + 1") == [{"result": "2"}]
    assert shared.generation == before


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("let a = 1\na", "1"),
        ("1, 2", "2"),
        ("[]", "[]"),
        ("undefined", None),
        ("f = () => 3; f()", "3"),
        ("const b = [1]\n// so\n;(b[0]) ;", "1"),
        ("'use strict'", "'use strict'"),
        ("await 4 // four", "4"),
        ("`a\n]`", "'a\\n]'"),
        ("async () => 1", "[AsyncFunction (anonymous)]"),
        ("(function () {})", "[Function (anonymous)]"),
        ("Promise.resolve(5)", "5"),
        ("if (true) 6", "6"),
        ("let n: number = 7; n as number", "7"),
    ],
)
async def test_the_last_expression_is_the_value_however_it_is_written(
    shared: Cells, code: str, value: str | None
) -> None:
    assert texts(await shared.run(code), "result") == ([] if value is None else [value])


async def test_an_error_in_the_last_expression_names_its_column(shared: Cells) -> None:
    (said,) = await shared.run("let a = 1;\na.b.c")
    assert said["error"].splitlines()[-1] == f"    at <cell {shared.number}>:2:5"


async def test_children_write_where_their_cell_does_however_they_inherit(cells: Cells) -> None:
    """Each of these gives a child descriptors of the kernel's own."""
    says = await cells.run(
        "const c = require('child_process'); c.execSync('echo 1', { stdio: 'inherit' }); "
        "c.execFileSync('echo', ['2'], { stdio: [0, 1, 2] }); c.spawnSync('echo 3 >&2', { shell: true, stdio: 'inherit' }); "
        "c.spawnSync('echo', ['4'], { stdio: ['ignore', 'inherit', 'pipe'] }); "
        "c.spawnSync('sh', ['-c', 'echo 5 >&2'], { stdio: ['ignore', 1, process.stdout] }); "
        "require('fs').writeFileSync('child.cjs', 'console.log(6); process.send(7)'); "
        "const child = c.fork('child.cjs'); await new Promise((done) => child.on('message', (m) => { console.log(m); done() })); "
        "await new Promise((done) => child.on('exit', done))"
    )
    assert "".join(texts(says, "stdout")) == "1\n2\n4\n5\n6\n"
    assert texts(says, "stderr") == ["3\n"]
    assert texts(says, "log") == ["7"]


async def test_what_a_child_writes_later_is_not_lost(cells: Cells) -> None:
    script = "while [ ! -e go ]; do sleep 0.01; done; echo later"
    await cells.run(
        f"const child = require('child_process').spawn('sh', ['-c', '{script}'], {{ stdio: 'inherit' }}); undefined"
    )
    says = await cells.run("require('fs').writeFileSync('go', ''); await new Promise((r) => child.on('exit', r))")
    assert texts(says, "stdout") == ["later\n"]


async def test_a_thousand_cells_do_not_grow_the_kernel(cells: Cells, tmp_path: Path) -> None:
    code = "const a = { n: Math.random() }; console.log(a.n > 2); await null; a"
    for _ in range(600):  # until what V8 made of the parser's functions is there
        await cells.run(code)
    (node,) = nodes_of(tmp_path)
    before = resident_kb(node)
    for _ in range(1000):
        await cells.run(code)
    assert resident_kb(node) < 1.2 * before


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
