"""A Jupyter client of somebody else's on a kernel: it shares the variables, and cells stay right."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from tests.kernels.playing_cells import kernels_in, play
from tests.waiting import GUARD_S, until

from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Language

pytestmark = pytest.mark.slow


@pytest.fixture
async def kernels(tmp_path: Path) -> AsyncIterator[Kernels]:
    async with kernels_in(tmp_path) as kernels:
        yield kernels


@asynccontextmanager
async def attached(kernels: Kernels, language: Language) -> AsyncIterator[AsyncKernelClient]:
    kernel = await kernels.running_kernel(language)
    shell = kernel.socket("shell")
    client = AsyncKernelClient()
    client.load_connection_info(
        {
            "transport": "ipc",
            "ip": str(shell).rpartition("-")[0],
            "key": kernel.connection.key.encode(),
            "signature_scheme": kernel.connection.signature_scheme,
            **{
                f"{channel}_port": int(kernel.socket(channel).name.rpartition("-")[2])  # type: ignore[arg-type]
                for channel in ("shell", "iopub", "stdin", "control", "hb")
            },
        }
    )
    client.start_channels(stdin=False, hb=False)
    try:
        await client.wait_for_ready(timeout=GUARD_S)
        yield client
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)


async def executed(client: AsyncKernelClient, code: str) -> tuple[str, list[Any]]:
    """Execute code as the other client; return the status, and what it was shown."""
    shown: list[Any] = []

    def show(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] != "status":
            shown.append(content.get("text") or content.get("data", {}).get("text/plain") or content.get("ename"))

    reply = await client.execute_interactive(code, output_hook=show, timeout=GUARD_S)
    return reply["content"]["status"], shown


def taken(kernels: Kernels) -> Callable[[], bool]:
    return lambda: kernels._lanes["python"].is_taken


@pytest.mark.parametrize(
    ("language", "given", "write"),
    [
        ("python", "x = 41", "print('mine'); y = 2"),
        ("javascript", "const x = 41", "console.log('mine'); const y = 2"),
    ],
)
async def test_variables_are_shared_and_outputs_are_not(kernels, language, given, write):
    await play(kernels, language, given, 1)
    async with attached(kernels, language) as client:
        assert await executed(client, "x + 1") == ("ok", ["42"])
        assert (await executed(client, write))[0] == "ok"
        said, closed = await play(kernels, language, "x + y", 2)
    assert (said, closed.status) == ([{"result": "43"}], "ok")


async def test_what_a_thread_of_the_client_prints_late_is_in_no_cell(kernels):
    await play(kernels, "python", "import threading; go, gone = threading.Event(), threading.Event()", 1)
    async with attached(kernels, "python") as client:
        await executed(client, "threading.Thread(target=lambda: (go.wait(), print('late'), gone.set())).start()")
        said, _ = await play(kernels, "python", "go.set(); gone.wait(); print('own')", 2)
        after, _ = await play(kernels, "python", "1", 3)
    assert (said, after) == ([{"stdout": "own\n"}], [{"result": "1"}])


@pytest.mark.parametrize(
    ("language", "fails", "other", "call", "line"),
    [
        (
            "python",
            "def f():\n    return 1 / 0",
            "# other\n# text",
            "f()",
            '  File "<cell 1>", line 2, in f\n    return 1 / 0',
        ),
        ("javascript", "function f() {\n  null.x }", "await 1; let z = 1", "f()", "at f (<cell 1>:2:8)"),
    ],
)
async def test_code_of_the_client_is_not_taken_for_a_cells_in_tracebacks(kernels, language, fails, other, call, line):  # noqa: PLR0917
    await play(kernels, language, fails, 1)
    async with attached(kernels, language) as client:
        await executed(client, other)
        said, _ = await play(kernels, language, call, 2)
    assert line in said[0]["error"]


async def test_an_error_of_the_client_ends_no_cell(kernels):
    async with attached(kernels, "python") as client:
        assert await executed(client, "1/0") == ("error", ["ZeroDivisionError"])
        said, closed = await play(kernels, "python", "1", 1)
    assert (said, closed.status) == ([{"result": "1"}], "ok")


async def test_a_cell_waits_for_what_the_client_executes(kernels):
    async with attached(kernels, "python") as client:
        client.execute("import time; time.sleep(0.5); z = 3")
        await until(taken(kernels))
        said, closed = await play(kernels, "python", "z", 1)
    assert (said, closed.status, closed.rung) == ([{"result": "3"}], "ok", None)


async def test_a_cell_that_waits_in_vain_says_so_and_was_not_executed(kernels):
    async with attached(kernels, "python") as client:
        client.execute("import time\nwhile not globals().get('stop'): time.sleep(0.01)")
        await until(taken(kernels))
        said, closed = await play(kernels, "python", "w = 1", 1, deadline_s=0.5)
        assert closed.status == "timeout"
        assert said[0]["notice"].startswith(
            "The code was not executed: somebody attached a console to the Python kernel"
        )
        client.control_channel.send(client.session.msg("interrupt_request", {}))
        said, closed = await play(kernels, "python", "'w' in globals()", 2)
    assert (said, closed.status, closed.kernel_generation) == ([{"result": "False"}], "ok", 1)


async def test_a_restart_ends_what_the_client_executes(kernels):
    async with attached(kernels, "python") as client:
        client.execute("while True: pass")
        await until(taken(kernels))
        assert await kernels.restart("python") == 2
    said, closed = await play(kernels, "python", "1", 1)
    assert (said[-1], closed.status) == ({"result": "1"}, "ok")


async def test_a_kernel_that_the_client_ended_is_replaced_for_the_cell_that_waits(kernels):
    async with attached(kernels, "python") as client:
        client.execute("import os, time; time.sleep(0.5); os._exit(3)")
        await until(taken(kernels))
        said, closed = await play(kernels, "python", "1", 1)
    assert said[0]["notice"].startswith(
        "Since the last cell the Python kernel has ended. python-kernel exited with status 3."
    )
    assert (said[1:], closed.status, closed.kernel_generation) == ([{"result": "1"}], "ok", 2)
