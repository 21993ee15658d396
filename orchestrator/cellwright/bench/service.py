"""What the benchmark measures against: a running `cellwright serve`, and programs that do the same without Cellwright.

Flows in: nothing, or a program of ours. Flows out: a client of the service; a way to ask the program. Decided here: both
are processes of their own, as a user would have them; that a program runs with the interpreter of the inside's runtime, so
that both sides have the same versions; and that nothing is waited for without an end.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import IO, Final

import httpx2

from cellwright.errors import EnvironmentMissing
from cellwright.sandbox.runtime import runtime_folder
from cellwright_kernel.wire import Language

SESSIONS: Final = 12
"""Most sessions at once that the service is asked for."""
_READY_S: Final = 30.0
"""Seconds that the service has to come up; 1 is usual."""
_ANSWER_S: Final = 60.0
"""Seconds that a program has for an answer; stock.py itself waits 30 for a reply."""
_END_S: Final = 30.0
_NOTHING_MEASURED: Final = "Usually this machine lacks something. Nothing was measured. Run `cellwright doctor`."


@contextmanager
def service() -> Iterator[httpx2.Client]:
    """Start `cellwright serve` as a process of its own, as a user would.

    Raises:
        EnvironmentMissing: It did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="cellwright-bench-") as state:
        environment = {**os.environ, "CELLWRIGHT_STATE": state}
        environment.pop("CELLWRIGHT_TOKEN", None)
        command = [sys.executable, "-m", "cellwright", "serve", "--port", "0", "--max-sessions", str(SESSIONS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=environment) as process:
            try:
                printed = _until_ready(Printed("`cellwright serve`", process))
                headers = {"Authorization": f"Bearer {(Path(state) / 'token').read_text().strip()}"}
                url = re.search(r"http://\S+", printed)
                with httpx2.Client(
                    base_url=url.group() if url else "", headers=headers, timeout=60, trust_env=False
                ) as client:
                    yield client
            finally:
                process.terminate()
                ended(process)


def answered(client: httpx2.Client, session_id: str, language: Language, code: str) -> tuple[float, str]:
    """What a call of `POST /execute` took, in milliseconds, and the text that it was answered with.

    Raises:
        EnvironmentMissing: It was not answered.
    """
    body = {"session_id": session_id, "language": language, "code": code}
    started = time.perf_counter()
    response = client.post("/execute", json=body)
    took = (time.perf_counter() - started) * 1000
    output = response.json().get("output") if response.status_code == 200 else None
    if output is None:
        raise EnvironmentMissing(f"`{code[:80]}` was not answered but: {response.text[:500]} Run `cellwright doctor`.")
    return took, "\n".join(item["text"] for item in output if item["type"] == "input_text")


@contextmanager
def program(file: Path, name: str, *arguments: str) -> Iterator[Callable[[str], str]]:
    """Run a program of ours in the inside's runtime; give a way to ask it: a line in, a line out.

    Args:
        file: The program; it ends when its standard input does.
        name: What people call it.
        arguments: What it is started with.

    Raises:
        EnvironmentMissing: It ended, or was silent.
    """
    # -P: our own folder is not where its imports come from
    command = [str(runtime_folder() / "bin" / "python"), "-P", str(file), *arguments]
    with (
        _shown_on_failure() as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0) as process,
    ):
        asked, printed = process.stdin, Printed(name, process)
        assert asked is not None  # noqa: S101 - for the type checker; it was asked for

        def ask(line: str) -> str:
            asked.write(f"{line}\n".encode())
            return printed.line(_ANSWER_S)

        try:
            yield ask
        finally:
            asked.close()
            ended(process)


@contextmanager
def _shown_on_failure() -> Iterator[IO[bytes]]:
    """Keep what is written there, a stock kernel's warnings say, and show it only when something goes wrong."""
    with tempfile.TemporaryFile() as kept:
        try:
            yield kept
        except BaseException:
            kept.seek(0)
            sys.stderr.write(kept.read()[-4000:].decode(errors="replace"))
            raise


def _until_ready(serving: Printed) -> str:
    printed = ""
    while (line := serving.line(_READY_S)) != "ready":
        printed += line + "\n"
    return printed


class Printed:
    """What a program prints, line by line.

    Args:
        name: What people call it.
        process: Its standard output is an unbuffered pipe.
    """

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None  # noqa: S101 - for the type checker; it was asked for
        self._pipe = process.stdout
        self._name = name
        self._rest = b""

    def line(self, within_s: float) -> str:
        """Return its next line.

        Raises:
            EnvironmentMissing: It ended, or said none within `within_s` seconds.
        """
        end = time.monotonic() + within_s
        while b"\n" not in self._rest:
            if not select([self._pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                raise EnvironmentMissing(f"{self._name} said nothing for {within_s:g} s. {_NOTHING_MEASURED}")
            if not (read := os.read(self._pipe.fileno(), 65536)):
                raise EnvironmentMissing(f"{self._name} ended before it had said all. {_NOTHING_MEASURED}")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().strip()


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until it has ended, as it was told to; kill it if it does not."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
