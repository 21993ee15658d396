"""`cellwright attach`: a stock Jupyter client on the kernels of a session that `cellwright serve` holds."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from tests.serving import Service, running_service

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

WAIT_S = 20


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("state")) as service:
        yield service


def cellwright(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cellwright", *arguments]
    return subprocess.run(command, env=service.environment, capture_output=True, text=True, timeout=60, check=False)


def executed(service: Service, code: str, language: str) -> str:
    done = cellwright(service, "exec", "--session", "one", "--lang", language, code)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def attaching(service: Service, language: str, place: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """`cellwright attach`, its files in `place`; at the end it is told to end, and nothing of it may be left."""
    command = [sys.executable, "-m", "cellwright", "attach", "one", "--lang", language]
    environment = {**service.environment, "XDG_RUNTIME_DIR": str(place)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            assert words[:3] == ["jupyter", "console", "--existing"]
            yield Path(words[3]), process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)
    assert list(place.iterdir()) == []


@contextmanager
def client_of(file: Path) -> Iterator[BlockingKernelClient]:
    client = BlockingKernelClient()
    client.load_connection_file(str(file))
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WAIT_S)
        yield client
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)


def shown_by(client: BlockingKernelClient, code: str) -> list[str]:
    shown: list[str] = []

    def show(message: dict[str, Any]) -> None:
        if message["msg_type"] != "status":
            shown.append(message["content"]["data"]["text/plain"])

    assert client.execute_interactive(code, output_hook=show, timeout=WAIT_S)["content"]["status"] == "ok"
    return shown


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: a Unix socket's may have 107 characters."""
    return tmp_path_factory.mktemp("p")


@pytest.mark.parametrize(
    ("language", "given", "told"),
    [("py", "x = 41", "print(x, y)"), ("js", "const x = 41", "console.log(x, y)")],
)
def test_a_stock_client_shares_the_variables(service, place, language, given, told):
    executed(service, given, language)
    with attaching(service, language, place) as (file, _), client_of(file) as client:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert shown_by(client, "x + 1") == ["42"]
        beginning = "x.toF" if language == "js" else "x.bit_l"
        completed = client.complete(beginning, reply=True, timeout=WAIT_S)["content"]["matches"]
        assert completed == [{"x.toF": "x.toFixed", "x.bit_l": "x.bit_length"}[beginning]]
        shown_by(client, "y = 2")
        assert executed(service, told, language) == "41 2\n"


@pytest.mark.parametrize(("language", "prints"), [("py", "print('a' * 5, x)"), ("js", "console.log('a'.repeat(5), x)")])
def test_the_stock_console_works(service, place, language, prints):
    executed(service, "x = 41" if language == "py" else "const x = 41", language)
    with attaching(service, language, place) as (file, _):
        command = ["-m", "jupyter", "console", "--existing", str(file), "--simple-prompt"]
        environment = {**os.environ, "HOME": str(place.parent), "TERM": "xterm"}
        console = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=WAIT_S, env=environment)
        try:
            console.expect(r"In \[1\]: ")
            console.sendline("x + 1")
            console.expect(r"Out\[\d+\]: 42")
            console.expect(r"In \[\d+\]: ")
            console.sendline(prints)
            console.expect("aaaaa 41")
            console.expect(r"In \[\d+\]: ")
            console.sendeof()
            console.expect("really want to exit")
            console.sendline("y")
            console.expect(pexpect.EOF)
        finally:
            console.close(force=True)
        assert console.exitstatus == 0
    assert executed(service, "log(x)" if language == "py" else "console.log(x)", language) == "41\n"


def test_the_run_says_that_somebody_attached(service, place):
    executed(service, "1", "py")
    with attaching(service, "py", place) as (file, _), client_of(file) as client:
        shown_by(client, "1")
    (run,) = (service.state / "runs").iterdir()
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    noted = [record["topic"] for record in records if record["type"] == "note"]
    assert noted[-2:] == ["attached", "detached"]
    assert cellwright(service, "verify", run.name).stderr == ""


def test_an_interrupt_by_the_client_keeps_variables_and_the_browser(service, place):
    executed(service, "title = await page.title(); x = 41", "py")
    with attaching(service, "py", place) as (file, _), client_of(file) as client:
        client.execute("import asyncio; print('begun'); await asyncio.sleep(600)")
        while client.get_iopub_msg(timeout=WAIT_S)["msg_type"] != "stream":
            pass
        client.control_channel.send(client.session.msg("interrupt_request", {}))
        assert client.get_control_msg(timeout=WAIT_S)["content"] == {"status": "ok"}
        assert executed(service, "log(x + await page.evaluate('1'))", "py") == "42\n"


def test_a_restart_ends_it_with_a_sentence(service, place):
    executed(service, "x = 1", "py")
    with attaching(service, "py", place) as (file, process), client_of(file) as client:
        assert shown_by(client, "x") == ["1"]
        assert _post(service, "/v1/sessions/one/restart?language=python") == 204
        said = process.communicate(timeout=WAIT_S)[1]
        assert process.returncode == 1
    assert said.splitlines()[-1] == (
        "cellwright: The kernel has ended, by a restart or otherwise, and its variables are gone. Attach again."
    )


def test_a_session_that_is_not_there_is_said(service):
    done = cellwright(service, "attach", "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cellwright: There is no open session 'none'.")


def test_who_attaches_is_told_of_secrets(service, tmp_path, monkeypatch):
    def advice(one: Service, place: Path) -> str:
        executed(one, "1", "py")
        place.mkdir()
        with attaching(one, "py", place) as (_, process):
            process.send_signal(signal.SIGINT)
            return process.communicate(timeout=WAIT_S)[1]

    monkeypatch.setenv("KEY", "Zebra-7!x+Y/z")
    with running_service(tmp_path / "state", "--secret", "KEY") as with_secrets:
        assert "This session has secrets: their values are not hidden there" in advice(with_secrets, tmp_path / "a")
    assert "secrets" not in advice(service, tmp_path / "b")


def test_another_token_is_refused(service):
    environment = {**service.environment, "CELLWRIGHT_TOKEN": "u" * 32}
    command = [sys.executable, "-m", "cellwright", "attach", "one"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no valid token" in done.stderr


def _post(service: Service, path: str) -> int:
    import httpx2

    headers = {"Authorization": f"Bearer {service.token}"}
    return httpx2.post(service.url + path, headers=headers, timeout=WAIT_S, trust_env=False).status_code
