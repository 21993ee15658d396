"""Clients of the guide's kind, strict and in other languages than ours, do a task of ten calls in one session.

The one in JavaScript runs in the Node of the playwright wheel, so it is always tested. Those in Ruby and Go are tested where
`ruby` and `go` are installed, and are no tests elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import playwright
import pytest
from tests.serving import Service, running_service

REAL = [pytest.mark.slow, pytest.mark.sandbox]
CLIENTS = Path(__file__).parent / "guide_clients"
TASK = CLIENTS / "task.json"
TASK_S = 120
NODE = Path(playwright.__file__).parent / "driver" / "node"
COMMANDS = {
    "javascript": [str(NODE), str(CLIENTS / "client.mjs")],
    "ruby": ["ruby", str(CLIENTS / "client.rb")],
    "go": ["go", "run", str(CLIENTS / "client.go")],
}


NOT_TAKEN = {
    "no output": {"output": []},
    "another field": {"output": [{"type": "input_text", "text": "a"}], "status": "ok"},
    "another type": {"output": [{"type": "text", "text": "a"}]},
    "another detail": {
        "output": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}]
    },
    "no detail": {"output": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
    "no PNG": {"output": [{"type": "input_image", "image_url": "data:image/jpeg;base64,/9j/", "detail": "original"}]},
    "a field too many": {"output": [{"type": "input_text", "text": "a", "detail": "original"}]},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("state")) as service:
        yield service


def client(language: str, url: str, token: str, folder: Path, task: Path = TASK) -> subprocess.CompletedProcess[str]:
    """Run a client to its end. Go keeps what it compiles in its home."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "OPENAI_EXAMPLE_CODE_EXECUTION_URL": url,
        "OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN": token,
    }
    command = [*COMMANDS[language], str(task)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TASK_S)


@pytest.mark.parametrize(
    "language", [pytest.param(name, marks=REAL) for name, command in COMMANDS.items() if shutil.which(command[0])]
)
def test_a_task_of_ten_calls_in_both_languages(language: str, service: Service, tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = json.loads(TASK.read_text())
    assert len(calls) == 10
    done = client(language, service.url, service.token, tmp_path)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [call["says"] for call in calls], done.stderr
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("answer", NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_the_client_takes_no_other_answer(answer: object, tmp_path: Path) -> None:
    with answering(200, answer) as url:
        done = client("javascript", url, "t", tmp_path)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout


@pytest.mark.slow
def test_the_client_takes_no_other_status(tmp_path: Path) -> None:
    with answering(201, {"output": [{"type": "input_text", "text": "a"}]}) as url:
        done = client("javascript", url, "t", tmp_path)
    assert (done.returncode, done.stdout, done.stderr[:11]) == (1, "", "status 201:")


@contextmanager
def answering(status: int, answer: object) -> Iterator[str]:
    """Serve one answer to every call."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
