"""The kernel host as a process, its real Python kernel and its real door. Without a desktop, but for the last tests."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from tests.hosts import Host, let_go, peak_bytes, running, started
from tests.waiting import GUARD_S

from cellwright_kernel import processes
from cellwright_kernel.wire import (
    Execute,
    HostSettings,
    KeptEvent,
    Text,
)

pytestmark = pytest.mark.slow


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with running(tmp_path) as host:
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
    _, outputs = await host.execute("import time; time.sleep(1); print('two')")
    assert [(o.of_cell, o.text) for o in outputs] == [(1, "bg 0\nbg 1\nbg 2\n"), (None, "two\n")]


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
    assert (await host.client.post("/kernels/python/restart")).json() == {"kernel_generation": 2}
    assert (await host.texts("print('up')"))[-1] == "up\n"


async def test_a_client_that_leaves_does_not_end_the_cell(host):
    request = Execute(number=50, language="python", code="import time; time.sleep(1.5); done = True", deadline_s=10)
    async with host.client.stream("POST", "/cells", content=request.model_dump_json()) as response:
        async for _ in response.aiter_lines():
            break
    busy = await host.client.post("/cells", content=request.model_dump_json())
    assert (busy.status_code, busy.json()) == (
        409,
        {"error": "Cell 50 is still running. Nothing of this one was executed."},
    )
    async with asyncio.timeout(GUARD_S):
        while (await host.client.post("/cells", content=request.model_dump_json())).status_code == 409:
            pass
    assert await host.texts("print(done)") == ["True\n"]


async def test_orphans_are_reaped(host):
    (text,) = await host.texts("import subprocess\nprint(subprocess.getoutput('setsid sleep 0.1 & echo $!'))")
    pid = int(text)
    async with asyncio.timeout(GUARD_S):
        while processes._process(pid):  # noqa: ASYNC110 - the fact is another process's
            await asyncio.sleep(0.05)


async def test_the_leash_ends_everything(tmp_path):
    async with running(tmp_path) as host:
        assert (await host.ready()).ready
        await host.execute("import subprocess; subprocess.Popen(['sleep', '618'])")
        host.process.stdin.close()
        assert host.process.wait(GUARD_S) == 0


async def test_stopping_in_the_middle_of_a_cell_is_orderly(tmp_path):
    async with running(tmp_path) as host:
        assert (await host.ready()).ready
        async with asyncio.TaskGroup() as group:
            cell = group.create_task(host.execute("print('on'); import time; time.sleep(60)"))
            while not any(event.type == "heartbeat" for event in host.events):  # noqa: ASYNC110 - read by another task
                await asyncio.sleep(0.05)
            let_go(host.process)
        status, outputs = cell.result()
        assert (status, [output.text for output in outputs]) == (
            "interrupted",
            [
                "on\n",
                "The cell was ended because its sandbox is being ended. Output up to then is kept. Its variables, files, windows "
                "and pages go with it. Open a new session to go on.",
            ],
        )


async def test_where_there_is_a_leash_no_signal_that_a_cell_may_send_stops_it(host):
    await host.texts("before = 1; import os, signal")
    sent = f"for number in (signal.SIGINT, signal.SIGTERM) * 3: os.kill({host.process.pid}, number)"
    assert (await host.execute(f"{sent}\nimport time; time.sleep(0.3); log('on')"))[1][-1].text == "on"
    assert await host.texts("log(before)") == ["1"]
    assert await host.texts("import subprocess; log(subprocess.run(['sh', '-c', 'kill $$']).returncode)") == ["-15"]


def test_without_a_leash_a_signal_stops_it(tmp_path):
    made = HostSettings.model_validate({"door": "", "desktop": False})
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        (tmp_path / "home").mkdir()
        with started(tmp_path / "home", made, Path(short) / "door", stdin=subprocess.DEVNULL) as process:
            with httpx2.Client(transport=httpx2.HTTPTransport(uds=f"{short}/door"), base_url="http://inside") as client:
                assert client.get("/ready", params={"timeout_s": "20"}, timeout=30).json()["ready"] is True
            process.send_signal(signal.SIGTERM)
            assert process.wait(GUARD_S) == 0


async def test_a_kernel_that_cannot_start_is_named_at_readiness(tmp_path):
    async with running(tmp_path, env={"PYTHONHOME": "/nonexistent"}) as host:
        ready = await host.ready()
        assert not ready.ready
        assert "No python kernel came up" in ready.missing[0]
        assert "encodings" in ready.missing[0]


def test_settings_that_cannot_be_read_are_refused():
    done = subprocess.run(
        [sys.executable, "-m", "cellwright_kernel", "--settings", "{}"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "these are no settings: Field required" in done.stderr


def named(home: Path, name: str) -> list[int]:
    mark = f"HOME={home}".encode()
    return [
        p.pid
        for p in processes._table()
        if mark in processes._read(p.pid, "environ") and Path(p.command.split(" ")[0]).name == name
    ]


@pytest.fixture
async def whole_host(tmp_path: Path) -> AsyncIterator[Host]:
    async with running(tmp_path, desktop=True, chromium_sandbox=os.getuid() != 0) as host:
        ready = await host.ready()
        assert (ready.ready, ready.missing) == (True, ())
        yield host


async def texts_once_noticed(host: Host, what: str) -> list[str]:
    """Execute cells until one says that something ended; it takes the host a moment to see it."""
    async with asyncio.timeout(GUARD_S):
        while not (texts := await host.texts("1"))[0].startswith(what):
            pass
    return texts


@pytest.mark.sandbox
async def test_a_browser_that_ended_is_told_of_and_there_again(whole_host, tmp_path):
    await whole_host.execute("await page.goto('data:text/html,<title>one</title>')")
    os.kill(min(named(tmp_path / "home", "chromium")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "chromium")
    assert texts[0] == (
        "chromium was ended by SIGKILL. Its pages are closed. "
        "A new browser was started on the same profile; pages that were open are closed."
    )
    assert texts[-1] == "1"
    assert (await whole_host.texts("await page.evaluate('innerWidth')"))[-1] == "1440"


@pytest.mark.sandbox
async def test_code_that_closes_the_last_page_can_open_the_next(whole_host, tmp_path):
    pid = min(named(tmp_path / "home", "chromium"))
    await whole_host.execute("await page.goto('data:text/html,<title>one</title>')")
    assert await whole_host.texts("await page.close(); other = await context.new_page(); len(context.pages)") == ["1"]
    await whole_host.execute("await other.close()")
    assert await whole_host.texts("await page.title()") == [
        "The page was closed or has crashed: `page` is now another page of the same browser.",
        "''",
    ]
    assert min(named(tmp_path / "home", "chromium")) == pid


@pytest.mark.sandbox
async def test_a_display_that_ended_is_told_of_and_there_again(whole_host, tmp_path):
    assert (await whole_host.client.get("/screen.png")).status_code == 200
    await whole_host.execute("x = 5; pyautogui.position()")
    os.kill(min(named(tmp_path / "home", "Xvnc")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "Xvnc")
    assert texts[0].endswith("Display and browser were started again; windows and pages are closed.")
    assert texts[-1] == "1"
    assert await whole_host.texts("x") == ["5"]
    assert (await whole_host.client.get("/screen.png")).status_code == 200
    assert await whole_host.texts("pyautogui.screenshot().size") == ["(1440, 1000)"]


@pytest.mark.sandbox
async def test_a_window_manager_that_ended_is_there_again_and_windows_stay(whole_host, tmp_path):
    await whole_host.execute("await page.goto('data:text/html,<title>kept</title>')")
    before = min(named(tmp_path / "home", "Xvnc"))
    await whole_host.execute("import subprocess; terminal = subprocess.Popen(['xterm'])")
    os.kill(min(named(tmp_path / "home", "openbox")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "openbox")
    assert texts[0].endswith("It was started again; windows and pages are as they were.")
    assert await whole_host.texts("terminal.poll(), await page.title()") == ["(None, 'kept')"]
    assert min(named(tmp_path / "home", "Xvnc")) == before


@pytest.mark.sandbox
async def test_keys_held_by_a_kernel_that_was_killed_are_let_go(whole_host):
    _, outputs = await whole_host.execute("pyautogui.keyDown('shift'); sum(range(10**11))", 1)
    assert "Held keys and buttons were let go (1)." in outputs[-1].text


@pytest.mark.sandbox
async def test_playwright_outlives_the_interrupt_of_the_cell_that_first_touched_it(whole_host):
    status, _ = await whole_host.execute("await page.goto('data:text/html,<title>kept</title>'); time.sleep(60)", 3)
    assert status == "timeout"
    assert await whole_host.texts("await page.title()") == ["'kept'"]


@pytest.mark.sandbox
async def test_javascript_has_its_page_after_an_interrupt_in_the_middle_of_loading_playwright(whole_host):
    await whole_host.execute("1", language="javascript")
    status, _ = await whole_host.execute("await page.title(); await new Promise(() => {})", 0.15, "javascript")
    assert status == "timeout"
    status, outputs = await whole_host.execute("await page.evaluate('1 + 1')", language="javascript")
    assert (status, outputs[-1].text) == ("ok", "2")


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
