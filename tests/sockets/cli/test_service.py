"""How commands find a running service, what they send it, and how they end when it refuses. The service is a real one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from tests.serving import running_service
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S

from cellwright.cli import main
from cellwright.cli.service import Address, address, announced
from cellwright.errors import ServiceUnreachable, TokenRefused, UsageError
from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.people import People
from cellwright.pool import Pool
from cellwright.record import read_run
from cellwright.record.records import CellOpened
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 32


@contextmanager
def serving(runs: Path, people: Callable[[], People] = People) -> Iterator[str]:
    """A gateway over fake sandboxes, whose cells have 7 s; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        pool = Pool(Spec(cell_deadline_s=7), runs=runs, backend=FakeBackend(), people=people)
        app = make_app(pool, token=TOKEN, hosts=own_hosts("127.0.0.1", port))
        server = PromptServer(uvicorn.Config(app, log_level="critical", ws="websockets-sansio", lifespan="on"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        end = time.monotonic() + GUARD_S
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(GUARD_S)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CELLWRIGHT_TOKEN", TOKEN)
    with serving(tmp_path / "runs") as url:
        yield url


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command; return its exit status."""

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["cellwright", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return int(ended.value.code or 0)

    return run


def open_session(url: str, session_id: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    httpx2.post(f"{url}/v1/sessions", json={"session_id": session_id}, headers=headers).raise_for_status()


def test_only_a_deadline_that_was_given_is_sent(service, says, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CELLWRIGHT_URL", service)
    assert says("exec", "--session", "one", "1") == 0
    assert says("exec", "--session", "one", "--deadline", "3", "1") == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert [r.deadline_s for r in read_run(run).records if isinstance(r, CellOpened)] == [7, 3]


@pytest.mark.parametrize(
    "given", [("--sandbox", "bubblewrap"), ("--size", "1440x1000"), ("--env", "A=1"), ("--allow", "x")]
)
def test_what_the_service_decided_cannot_be_said_again(service, says, monkeypatch, capsys, given) -> None:
    monkeypatch.setenv("CELLWRIGHT_URL", service)
    assert says("exec", "--session", "one", *given, "1") == 2
    assert "is said to `cellwright serve`" in capsys.readouterr().err


@pytest.mark.parametrize("deadline", ["inf", "nan", "0", "-1", "4000"])
def test_a_deadline_that_cannot_be_is_wrong_use(service, says, monkeypatch, capsys, deadline) -> None:
    monkeypatch.setenv("CELLWRIGHT_URL", service)
    assert says("exec", "--session", "one", "--deadline", deadline, "1") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_exit_status_is_the_same_as_without_a_service(service, says, monkeypatch, capsys) -> None:
    monkeypatch.setenv("CELLWRIGHT_URL", service)
    assert says("exec", "--session", "../x", "1") == 2
    monkeypatch.setenv("CELLWRIGHT_TOKEN", "u" * 32)
    assert says("exec", "--session", "one", "1") == TokenRefused.exit_status
    assert capsys.readouterr().err.count("\n") == 2


def test_the_only_service_is_the_one_that_is_meant(service) -> None:
    with announced(service):
        assert address("any", "Start it.") == Address(service, TOKEN)
    with pytest.raises(ServiceUnreachable):
        address("any", "Start it.")


@pytest.mark.slow
def test_of_several_services_the_one_that_has_the_session_is_meant(service, says, capsys, tmp_path) -> None:
    with ExitStack() as others:
        other = others.enter_context(serving(tmp_path / "others"))
        others.enter_context(announced(service))
        others.enter_context(announced(other))
        open_session(service, "one")
        open_session(other, "two")
        assert address("one", "Start it.").url == service
        assert address("two", "Start it.").url == other
        assert says("exec", "--session", "two", "log(41 + 1)") == 0
        assert capsys.readouterr().out == "42\n"
        with pytest.raises(
            UsageError, match=r"none of them shows a session 'three'\. Nothing ran\. Set CELLWRIGHT_URL"
        ):
            address("three", "Start it.")
        open_session(other, "one")
        with pytest.raises(UsageError, match="several of them show a session 'one'"):
            address("one", "Start it.")


def test_the_first_service_is_found_again_when_the_second_has_ended(service) -> None:
    with announced(service):
        with announced("http://127.0.0.1:9"):
            pass
        assert address("any", "Start it.").url == service


@pytest.mark.slow
def test_a_service_that_is_told_to_end_is_not_found_any_more(tmp_path) -> None:
    with running_service(tmp_path) as running:
        (file,) = (tmp_path / "services").iterdir()
        assert json.loads(file.read_text()) == {"url": running.url}
        assert file.stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "services").iterdir()) == []


@pytest.mark.slow
def test_a_service_that_was_killed_counts_no_more(service, clean_environment) -> None:
    code = "from cellwright.cli.service import announced\nwith announced('http://127.0.0.1:9'): print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"1\n"
        assert address("any", "Start it.").url == "http://127.0.0.1:9"
        killed.kill()
    with pytest.raises(ServiceUnreachable):
        address("any", "Start it.")
    assert len(list((clean_environment / "services").iterdir())) == 1
    with announced(service):
        assert address("any", "Start it.").url == service
    assert list((clean_environment / "services").iterdir()) == []
