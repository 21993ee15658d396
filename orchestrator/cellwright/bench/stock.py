"""The baseline of the benchmark: a stock ipykernel, driven over raw jupyter_client.

Flows in: the code to execute, `print(1)` unless said; on standard input, a number of rounds a line. Flows out: on standard output, a JSON list of round trip times
in seconds a line. Decided here: that the baseline does just what any notebook does: `execute_request`, then reply and
idle, with nothing of ours between. It is a program of its own, which `service.py` runs with the interpreter of the inside's
runtime, so that both kernels are the same version; no sandbox carries it.
"""

from __future__ import annotations

import json
import sys
import time

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

WAIT_S = 30.0


def main() -> None:
    """Serve rounds until standard input ends."""
    code = sys.argv[1] if len(sys.argv) > 1 else "print(1)"
    manager = KernelManager()
    manager.kernel_cmd = [sys.executable, "-m", "ipykernel_launcher", "--log-level=ERROR", "-f", "{connection_file}"]
    manager.start_kernel()
    client: BlockingKernelClient = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT_S)
        for line in sys.stdin:
            sys.stdout.write(json.dumps([_round(client, code) for _ in range(int(line))]) + "\n")
            sys.stdout.flush()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _round(client: BlockingKernelClient, code: str) -> float:
    started = time.perf_counter()
    asked = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=WAIT_S)
        if (
            message["parent_header"].get("msg_id") == asked
            and message["msg_type"] == "status"
            and message["content"]["execution_state"] == "idle"
        ):
            break
    while client.get_shell_msg(timeout=WAIT_S)["parent_header"].get("msg_id") != asked:
        pass
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
