"""What the model is told of a cell that did not end by itself, with the real Python kernel: each sentence, word for word."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.hosts import Host, running

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LOST = (
    "All Python variables are gone; a new kernel starts before the next cell. Files and the browser with its pages are "
    "kept; pages in contexts that the code had made, and windows of programs that cells had started, are closed."
)
LEFT = "Background tasks and threads that the code had started may still be running."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    async with running(tmp_path_factory.mktemp("host")) as host:
        assert (await host.ready()).ready
        yield host


@pytest_asyncio.fixture(loop_scope="module")
async def own_host(shared_host: Host) -> Host:
    """Give a test a kernel with variables of its own; what became of the one before is told here."""
    await shared_host.execute("import ctypes, os, signal, subprocess, time; x = 1; print('there')")
    return shared_host


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (
            "os._exit(3)",
            "python-kernel exited with status 3. Usually the code, or a library, ended the process itself.",
        ),
        (
            "ctypes.string_at(0)",
            "python-kernel was ended by SIGSEGV. Usually a compiled library failed, or got no more memory.",
        ),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "python-kernel was ended by SIGKILL. Usually memory ran out, or the code killed it.",
        ),
        ("os.kill(os.getpid(), signal.SIGTERM)", "python-kernel was ended by SIGTERM."),
    ],
)
async def test_how_a_kernel_died(own_host, code, how):
    status, outputs = await own_host.execute(f"print('last words'); {code}")
    assert (status, outputs[0].text) == ("kernel_died", "last words\n")
    assert outputs[1].text == (
        f"The Python kernel died while it executed this cell. {how} Output up to then is kept. {LOST}"
    )
    assert await own_host.texts("print('x' in globals())") == ["False\n"]


async def test_a_deadline_ends_the_children_of_the_cell_and_keeps_variables(own_host):
    status, outputs = await own_host.execute("x = 2; subprocess.run(['sleep', '619'])", 0.5)
    assert status == "timeout"
    assert outputs[-1].text == (
        "The cell was interrupted at its deadline of 0.5 s. The Python kernel goes on: variables set so far are kept. "
        f"Files, browser pages and windows of what still runs are as the code left them. {LEFT} "
        "Processes that were ended: `sleep 619`."
    )
    assert await own_host.texts("x") == ["2"]


async def test_a_kernel_that_the_interrupt_ends_is_not_said_to_have_been_killed(own_host):
    code = "signal.signal(signal.SIGINT, signal.SIG_DFL); print('last words'); time.sleep(60)"
    status, outputs = await own_host.execute(code, 0.5)
    assert (status, outputs[0].text) == ("timeout", "last words\n")
    assert outputs[1].text == (f"The cell was ended at its deadline of 0.5 s; the Python kernel ended with it. {LOST}")


async def test_a_kernel_that_does_not_stop_is_killed(own_host):
    status, outputs = await own_host.execute("print('last words'); sum(range(10**11))", 0.5)
    assert (status, outputs[0].text) == ("timeout", "last words\n")
    assert outputs[1].text == (
        "The cell was ended at its deadline of 0.5 s; since the Python kernel did not stop, it was killed. " + LOST
    )


async def test_leaving_with_exit_ends_the_cell_only(own_host):
    status, (error,) = await own_host.execute("exit()")
    assert (status, error.text.splitlines()[-1]) == (
        "error",
        "The kernel goes on: exit() only ends the cell. Variables are kept.",
    )
    assert await own_host.texts("x") == ["1"]


async def test_a_kernel_that_a_thread_of_an_earlier_cell_ends_says_whose_words_came_last(own_host):
    await own_host.execute("import threading; threading.Timer(0.3, lambda: (print('late'), os._exit(4))).start()")
    status, outputs = await own_host.execute("time.sleep(5)")
    assert status == "kernel_died"
    assert [(output.of_cell, output.source) for output in outputs] == [
        (own_host.number - 1, "stdout"),
        (None, "notice"),
    ]
    assert outputs[0].text == "late\n"
