"""The baseline of a session: the same programs as they come, one started after the other, without isolation or a record.

Flows in: `desktop`, `browser` or `languages`, a line each, in this order. Flows out: for each a line of JSON, milliseconds
since this began, and our process id. Decided here: what a naive build is: Xvnc, openbox and a stock ipykernel; then Playwright
in it, which starts Chromium by itself; then Node with Playwright attached to that Chromium. It is a program of its own, which
the benchmark runs with the interpreter of the inside's runtime; no sandbox carries it. What it has started ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import playwright
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

WAIT_S = 30.0
_SUBREAPER = 36
_BROWSER = """
from playwright.async_api import async_playwright
_playwright = await async_playwright().start()
browser = await _playwright.chromium.launch(
    headless=False, executable_path={program!r}, args=["--remote-debugging-port={port}"])
page = await browser.new_page()
await page.title()
"""
_ATTACHED = """const {chromium} = require(process.argv[1]);
chromium.connectOverCDP(process.argv[2]).then(async browser => {
  await browser.contexts()[0].pages()[0].title(); console.log('attached'); setInterval(() => {}, 1e6); });"""


def main(chromium: str) -> None:
    """Start what is asked for until standard input ends."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # a browser whose parent has ended is still ours to end
    port = _free_port()
    with contextlib.ExitStack() as undo:
        client: BlockingKernelClient | None = None
        for line in sys.stdin:
            began = time.perf_counter()
            if line.strip() == "desktop":
                client = _desktop(undo.enter_context(tempfile.TemporaryDirectory()))
                undo.callback(_end_all)
                _execute(client, "print(1)")
            elif client is not None and line.strip() == "browser":
                _execute(client, _BROWSER.format(program=chromium, port=port))
            else:
                _attach_node(port)
            print(json.dumps({"ms": (time.perf_counter() - began) * 1000, "pid": os.getpid()}), flush=True)  # noqa: T201


def _desktop(folder: str) -> BlockingKernelClient:
    reader, writer = os.pipe()
    server = ["Xvnc", "-displayfd", str(writer), "-geometry", "1440x1000", "-depth", "24", "-SecurityTypes", "None"]
    server += ["-rfbunixpath", f"{folder}/vnc", "-rfbport", "-1", "-nolisten", "tcp"]
    quiet = subprocess.DEVNULL
    subprocess.Popen(server, pass_fds=[writer], stdout=quiet, stderr=quiet)
    os.close(writer)
    with open(reader) as told:  # noqa: PTH123 - a descriptor
        os.environ.update(DISPLAY=f":{told.readline().strip()}")
    subprocess.Popen(["openbox"], stdout=quiet, stderr=quiet)
    manager = KernelManager()
    manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "--log-level=ERROR", "-f", "{connection_file}"]
    manager.start_kernel()
    client: BlockingKernelClient = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=WAIT_S)
    return client


def _execute(client: BlockingKernelClient, code: str) -> None:
    reply = client.execute_interactive(code, timeout=WAIT_S, output_hook=lambda _: None)
    if reply["content"]["status"] != "ok":
        sys.exit(f"{reply['content'].get('ename')}: {reply['content'].get('evalue')}")


def _attach_node(port: int) -> None:
    driver = Path(playwright.__file__).parent / "driver"
    command = [str(driver / "node"), "-e", _ATTACHED, str(driver / "package"), f"http://127.0.0.1:{port}"]
    node = subprocess.Popen(command, stdout=subprocess.PIPE)
    if node.stdout is None or not node.stdout.readline():
        sys.exit("Node could not attach to Chromium.")


def _free_port() -> int:
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        return int(asking.getsockname()[1])


def _end_all() -> None:
    """Kill everything below, until nothing is left: who loses its parent becomes our child."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and (pids := children.read_text().split()):
        for pid in map(int, pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
