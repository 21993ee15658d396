"""One conformance suite for every way of making sandboxes.

Flows in: a function that makes a backend. Flows out: a `Report`, or a `Nonconformance`. Decided here: what any backend
must do, as seen through the door of a sandbox that it made.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from cellwright.errors import BadPath, CellwrightError, FileMissing
from cellwright.sandbox.base import Backend, Sandbox, Spec
from cellwright.testing.report import Check, Report, expect, run_checks
from cellwright_kernel.wire import ClosedEvent, Execute, OutputEvent, Text

_ENDED_S = 10.0
_INTERRUPTED_S = 3.0
"""Deadline of a cell that an interrupt should end; one that no interrupt reaches runs for so long."""
_HERE = str(Path(__file__).resolve())
_MARK = "CELLWRIGHT_CONFORMANCE_MARK"


async def check_backend(make: Callable[[], Backend], *, known_gaps: Collection[str] = ()) -> Report:
    """Put a backend through the suite; two sandboxes are made for it.

    Args:
        make: Returns the backend.
        known_gaps: Names of checks that this backend is known not to pass.

    Raises:
        Nonconformance: A check failed that is no known gap.
    """
    backend = make()
    os.environ[_MARK] = "the caller's own"
    try:
        one, two = await backend.start(Spec()), await backend.start(Spec())
        try:
            checks = [
                *(_log_is_exact, _variables_persist, _order_is_kept, _an_error_is_an_output, _syntax_errors_too),
                *(_silence_gets_a_sentence, _a_deadline_ends_a_cell, _an_interrupt_keeps_variables),
                *(_a_restart_loses_variables, _the_screen_is_a_png_of_the_size_asked, _files_go_in_and_out),
                *(_paths_stay_inside, _a_missing_file_is_missing, _the_callers_environment_is_absent),
                *(_the_hosts_files_are_absent, _there_is_no_network, _it_is_not_uid_0_outside),
            ]
            named: dict[str, Check] = {check.__name__.strip("_"): partial(check, one) for check in checks}
            named["two_share_nothing"] = partial(_two_share_nothing, one, two)
            named["closing_ends_every_process"] = partial(_closing_ends_every_process, one)
            named["closing_one_leaves_the_other"] = partial(_variables_persist, two)
            return await run_checks(named, known_gaps)
        finally:
            await one.close()
            await two.close()
    finally:
        del os.environ[_MARK]


async def _log_is_exact(sandbox: Sandbox) -> None:
    expect(await _texts(sandbox, "log(41 + 1)") == ["42"], "log(41 + 1) gives one text, 42")


async def _variables_persist(sandbox: Sandbox) -> None:
    await _texts(sandbox, "kept = 'kept'")
    expect(await _texts(sandbox, "log(kept)") == ["kept"], "a variable is there in the next cell")


async def _order_is_kept(sandbox: Sandbox) -> None:
    said = await _texts(sandbox, "import sys\nprint('a')\nlog('b')\nsys.stderr.write('c\\n')\nprint('d')")
    expect([text.strip() for text in said] == ["a", "b", "c", "d"], f"outputs keep their order, not {said}")


async def _an_error_is_an_output(sandbox: Sandbox) -> None:
    events, closed = await _execute(sandbox, "log('before')\n1 / 0")
    expect(closed.status == "error", f"the status is error, not {closed.status}")
    expect(events[0].text == "before", "what came before the error is kept")
    expect("ZeroDivisionError: division by zero" in events[-1].text, "the error has its type and message")


async def _syntax_errors_too(sandbox: Sandbox) -> None:
    events, closed = await _execute(sandbox, "for")
    expect(closed.status == "error" and "SyntaxError" in events[-1].text, "a syntax error is an output")


async def _silence_gets_a_sentence(sandbox: Sandbox) -> None:
    said = await _texts(sandbox, "silent = 1")
    expect(len(said) == 1 and said[0], "a cell that says nothing gives one sentence")


async def _a_deadline_ends_a_cell(sandbox: Sandbox) -> None:
    async with asyncio.timeout(_ENDED_S):
        await _texts(sandbox, "before_deadline = 1")
        _, closed = await _execute(sandbox, "while True: pass", deadline_s=0.5)
    expect(closed.status == "timeout", f"the status is timeout, not {closed.status}")
    expect(closed.rung == "interrupt", f"an interrupt is enough, and it was {closed.rung}")
    expect(await _texts(sandbox, "log(before_deadline)") == ["1"], "variables outlive an interrupt")


async def _an_interrupt_keeps_variables(sandbox: Sandbox) -> None:
    async with asyncio.timeout(_ENDED_S):
        running = asyncio.ensure_future(
            _execute(sandbox, "log('started')\nwhile True: pass", deadline_s=_INTERRUPTED_S, interrupt=True)
        )
        _, closed = await running
    expect(closed.status == "interrupted", f"the status is interrupted, not {closed.status}")
    expect(await _texts(sandbox, "log('still here')") == ["still here"], "the kernel goes on")


async def _a_restart_loses_variables(sandbox: Sandbox) -> None:
    await _texts(sandbox, "lost = 1")
    await sandbox.door.restart("python")
    said = await _texts(sandbox, "log('lost' in globals())")  # a sentence about the restart may stand before
    expect(said[-1] == "False", f"a restart loses variables, and the cell says {said}")


async def _the_screen_is_a_png_of_the_size_asked(sandbox: Sandbox) -> None:
    taken = await sandbox.door.screenshot()
    expect(taken is not None, "a screenshot comes when none is known")
    png = taken[0] if taken else b""
    expect(png.startswith(b"\x89PNG\r\n\x1a\n"), "it is a PNG")
    size = struct.unpack(">II", png[16:24])
    expect(size == (Spec().width, Spec().height), f"it has the desktop's size, not {size}")


async def _files_go_in_and_out(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 300
    await sandbox.door.write_file("folder/täst file.bin", data)
    back = b"".join([chunk async for chunk in sandbox.door.read_file("folder/täst file.bin")])
    expect(back == data, "a file comes back as it went in")
    listed = {info.path: info.size_bytes for info in await sandbox.door.list_files("folder")}
    expect(listed == {"folder/täst file.bin": len(data)}, f"it is listed, not {listed}")
    await sandbox.door.delete_file("folder/täst file.bin")
    expect(await sandbox.door.list_files("folder") == [], "it is gone once deleted")


async def _paths_stay_inside(sandbox: Sandbox) -> None:
    for path in ("../../etc/passwd", "a/../../../etc/hostname"):
        try:
            [chunk async for chunk in sandbox.door.read_file(path)]
        except (BadPath, FileMissing):
            continue
        raise AssertionError(f"{path} was read")


async def _a_missing_file_is_missing(sandbox: Sandbox) -> None:
    try:
        [chunk async for chunk in sandbox.door.read_file("no such file")]
    except FileMissing:
        return
    raise AssertionError("a missing file raises FileMissing")


async def _the_callers_environment_is_absent(sandbox: Sandbox) -> None:
    code = (
        "import os, pathlib\n"
        f"found = [n for n in os.environ if n == {_MARK!r}]\n"
        "for p in pathlib.Path('/proc').glob('[0-9]*/environ'):\n"
        "    try: data = p.read_bytes()\n"
        "    except OSError: continue\n"
        f"    found += [str(p)] if {_MARK.encode()!r} in data else []\n"
        "log(found)"
    )
    said = await _texts(sandbox, code)
    expect(said == ["[]"], f"the caller's environment is not inside, but {said}")


async def _the_hosts_files_are_absent(sandbox: Sandbox) -> None:
    said = await _texts(sandbox, f"import os.path\nlog(os.path.exists({_HERE!r}))")
    expect(said == ["False"], "a file of the caller is not inside")


async def _there_is_no_network(sandbox: Sandbox) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code = (
            "import socket\ntry:\n"
            f"    socket.create_connection(('127.0.0.1', {port}), 2).close()\n    log('connected')\n"
            "except OSError as e:\n    log('refused')"
        )
        said = await _texts(sandbox, code)
    expect(said == ["refused"], "the caller's loopback is out of reach")


async def _it_is_not_uid_0_outside(sandbox: Sandbox) -> None:
    expect(sandbox.info.isolated, "it says that it isolates")
    expect(sandbox.info.uid != 0, "its uid outside is not 0")
    real = _owner(sandbox.info.pid)
    expect(real == sandbox.info.uid, f"the process table agrees, and says {real}")


async def _two_share_nothing(one: Sandbox, two: Sandbox) -> None:
    await _texts(one, "import pathlib\nmine = 1\npathlib.Path('/tmp/mine').write_text('1')")
    said = await _texts(two, "import pathlib\nlog('mine' in globals() or pathlib.Path('/tmp/mine').exists())")
    expect(said == ["False"], "one sandbox's variables and files are not in another")


async def _closing_ends_every_process(sandbox: Sandbox) -> None:
    pid = sandbox.info.pid
    if pid:  # a double has no process of its own
        await _texts(sandbox, "import subprocess\nleft = subprocess.Popen(['sleep', '600'], start_new_session=True)")
    await sandbox.close()
    await sandbox.close()  # twice is once
    async with asyncio.timeout(_ENDED_S):
        await sandbox.ended()
    expect(not _alive(pid), "its first process is gone")
    try:
        await _texts(sandbox, "log(1)")
    except (CellwrightError, RuntimeError):
        return
    raise AssertionError("a closed sandbox answers no more")


def _owner(pid: int) -> int:
    return (Path("/proc") / str(pid)).stat().st_uid


def _alive(pid: int) -> bool:
    try:
        state = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def _texts(sandbox: Sandbox, code: str) -> list[str]:
    return [text.text for text in (await _execute(sandbox, code))[0]]


async def _execute(
    sandbox: Sandbox, code: str, *, deadline_s: float = 20.0, interrupt: bool = False
) -> tuple[list[Text], ClosedEvent]:
    """Execute a cell; with `interrupt`, ask for one as soon as its first output or piece is there."""
    texts: list[Text] = []
    request = Execute(number=1, language="python", code=code, deadline_s=deadline_s)
    async for event in sandbox.door.execute(request):
        if isinstance(event, OutputEvent) and isinstance(event.output, Text):
            texts.append(event.output)
        if interrupt and event.type in {"output", "piece"}:
            interrupt = False
            await sandbox.door.interrupt("python")
        if isinstance(event, ClosedEvent):
            return texts, event
    raise AssertionError("the stream of a cell ends with its closing")
