"""The kernel host as a process, its real Python kernel and its real door, without a desktop. One host has all of the tests' cells."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.hosts import Host, peak_bytes, running
from tests.waiting import GUARD_S

from cellwright_kernel import processes
from cellwright_kernel.wire import ClosedEvent, Execute, KeptEvent, Text

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    async with running(tmp_path_factory.mktemp("host")) as host:
        ready = await host.ready()
        assert (ready.ready, ready.missing) == (True, ())
        yield host


async def test_a_cell_through_the_door(host):
    assert await host.texts("log(41 + 1)") == ["42"]
    assert await host.texts("x = 5") == ["The cell ran and showed nothing."]
    assert await host.texts("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx") == ["out\n", "err\n", "5"]


async def test_an_error_is_the_status(host):
    status, (error,) = await host.execute("1/0")
    assert status == "error"
    assert (error.source, error.text.splitlines()[-1]) == ("error", "ZeroDivisionError: division by zero")


async def test_a_timeout_keeps_variables(host):
    assert (await host.execute("x = 7\nimport time; time.sleep(60)", 0.5))[0] == "timeout"
    assert await host.texts("print(6 * x)") == ["42\n"]


async def test_code_that_never_sees_an_interrupt_is_ended(host):
    began = time.monotonic()
    status, outputs = await host.execute("print('kept'); sum(range(10**11))", 0.5)
    assert time.monotonic() - began < 3.5
    assert (status, outputs[0].text) == ("timeout", "kept\n")
    assert await host.texts("print('next')") == ["next\n"]


async def test_text_that_a_dying_kernel_had_not_sent_is_kept(host):
    status, outputs = await host.execute("import os, signal; print('last words'); os.kill(os.getpid(), signal.SIGKILL)")
    assert (status, outputs[0].text) == ("kernel_died", "last words\n")
    assert "SIGKILL" in outputs[1].text


async def test_a_thread_writes_for_the_cell_that_started_it(host):
    await host.execute(
        "import threading, time\n"
        "def f():\n"
        "    for i in range(3): time.sleep(.2); print('bg', i)\n"
        "threading.Thread(target=f).start()"
    )
    first = host.number
    _, outputs = await host.execute("import time; time.sleep(1); print('two')")
    assert [(o.of_cell, o.text) for o in outputs] == [(first, "bg 0\nbg 1\nbg 2\n"), (None, "two\n")]


async def test_ready_tells_what_the_inside_runs_on(host):
    versions = (await host.ready()).versions
    assert sorted(versions) == ["node", "playwright", "python"]
    assert await host.texts("import platform; log(platform.python_version())") == [versions["python"]]
    _, (node,) = await host.execute("console.log(process.versions.node)", language="javascript")
    assert node.text == versions["node"]


async def test_the_process_tree_of_a_timed_out_cell_is_ended(host):
    _, outputs = await host.execute("import subprocess\nsubprocess.run(['sleep', '617'], start_new_session=True)", 0.5)
    assert [o.source for o in outputs] == ["error", "notice"]
    assert outputs[0].text.endswith("KeyboardInterrupt")
    assert [p.command for p in processes._table() if p.command == "sleep 617"] == []


async def test_a_huge_print_is_cut_and_kept_whole(host):
    (text,) = await host.texts("print('x' * 5_000_000)")
    assert len(text) <= 12_000
    assert sum(len(event.text) for event in host.events if isinstance(event, KeptEvent)) == 5_000_001


async def test_output_without_end_stays_within_its_room(host):
    """Three hundred million characters: 64 MiB are kept, the rest counted, and the end is there."""
    began = time.monotonic()
    _, (output,) = await host.execute("print('x' * 300_000_000); print('END')")
    assert time.monotonic() - began < 10
    head, _, tail = output.text.partition("\n[... ")
    tail = tail.partition("...]\n")[2]
    assert (set(head), tail.strip("x")) == ({"x"}, "\nEND\n")
    assert len(head) + output.missing_chars + len(tail) == 300_000_005
    kept = sum(len(event.text) for event in host.events if isinstance(event, KeptEvent))
    assert 60_000_000 < kept <= 64 * 1024**2
    assert peak_bytes(host.process.pid) < 256 * 1024**2


async def test_images_without_end_are_counted_where_they_were_left_out(host):
    _, outputs = await host.execute(
        "import os; from PIL import Image\n"
        "picture = Image.frombytes('L', (2000, 2000), os.urandom(4_000_000))\n"
        "for _ in range(20): display(picture)\n"
        "print('END')"
    )
    shown = sum(not isinstance(output, Text) for output in outputs)
    assert f"[... {20 - shown} outputs, images among them, stood here and are left out" in outputs[-2].text
    assert outputs[-1].text == "END\n"


async def test_a_module_in_home_can_be_imported_and_stands_in_for_nothing_of_the_kernels(host):
    await host.client.put("/files/mine.py", content=b"value = 3")
    assert await host.texts("import mine; print(mine.value)") == ["3\n"]
    await host.client.put("/files/random.py", content=b"raise SystemExit('shadowed')")
    closed = host.events[-1]
    assert isinstance(closed, ClosedEvent)
    restarted = await host.client.post("/kernels/python/restart")
    assert restarted.json() == {"kernel_generation": closed.kernel_generation + 1}
    assert (await host.texts("print('up')"))[-1] == "up\n"
    for name in ("mine.py", "random.py"):
        await host.client.delete(f"/files/{name}")


async def test_a_client_that_leaves_does_not_end_the_cell(host):
    code = "print('on'); import time; time.sleep(1); done = True"
    request = Execute(number=1000, language="python", code=code, deadline_s=10)
    after = Execute(number=1001, language="python", code="1", deadline_s=10)
    async with host.client.stream("POST", "/cells", content=request.model_dump_json()) as response:
        async for _ in response.aiter_lines():
            break
    busy = await host.client.post("/cells", content=request.model_dump_json())
    assert (busy.status_code, busy.json()) == (
        409,
        {"error": "Cell 1000 is still running. Nothing of this one was executed."},
    )
    async with asyncio.timeout(GUARD_S):
        while (await host.client.post("/cells", content=after.model_dump_json())).status_code == 409:
            pass
    assert await host.texts("print(done)") == ["True\n"]


async def test_orphans_are_reaped(host):
    (text,) = await host.texts("import subprocess\nprint(subprocess.getoutput('setsid sleep 0.1 & echo $!'))")
    pid = int(text)
    async with asyncio.timeout(GUARD_S):
        while processes._process(pid):  # noqa: ASYNC110 - the fact is another process's
            await asyncio.sleep(0.05)


async def test_where_there_is_a_leash_no_signal_that_a_cell_may_send_stops_it(host):
    await host.texts("before = 1; import os, signal")
    sent = f"for number in (signal.SIGINT, signal.SIGTERM) * 3: os.kill({host.process.pid}, number)"
    assert (await host.execute(f"{sent}\nimport time; time.sleep(0.3); log('on')"))[1][-1].text == "on"
    assert await host.texts("log(before)") == ["1"]
    assert await host.texts("import subprocess; log(subprocess.run(['sh', '-c', 'kill $$']).returncode)") == ["-15"]


async def test_a_kernel_that_cannot_execute_any_more_says_why_and_is_replaced_before_the_deadline(host):
    await host.texts("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))")
    began = time.monotonic()
    status, outputs = await host.execute("log('on')")
    assert (status, time.monotonic() - began < 10) == ("kernel_died", True)
    assert outputs[0].text == (
        "The kernel itself failed at this cell (OSError: [Errno 24] Too many open files), and ends. Usually a cell has taken from "
        "it what it needs, such as open files, or has changed what it works with."
    )
    assert await host.texts("log('on')") == ["on"]
