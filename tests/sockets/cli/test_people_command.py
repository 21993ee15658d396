"""`cellwright people`: what waits in a running service is listed, answered, approved and denied. The service is a real one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest
from tests.sockets.cli.test_service import TOKEN, says, serving
from tests.waiting import GUARD_S

from cellwright.people import People

__all__ = ["says"]  # a fixture

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CELLWRIGHT_TOKEN", TOKEN)
    with serving(tmp_path / "runs", partial(People.at_a_desk, approve="each")) as url:
        monkeypatch.setenv("CELLWRIGHT_URL", url)
        yield url


class Executing(threading.Thread):
    """Executes a cell in session `a.b`, and keeps what came of it."""

    def __init__(self, url: str, code: str) -> None:
        super().__init__()
        self.url, self.code = url, code
        self.texts: list[str] = []
        self.start()

    def run(self) -> None:
        body = {"session_id": "a.b", "language": "python", "code": self.code}
        answered = httpx2.post(f"{self.url}/execute", json=body, headers=HEADERS, timeout=GUARD_S)
        self.texts = [item["text"] for item in answered.json()["output"]]


def waiting(url: str, kind: str) -> None:
    end = time.monotonic() + GUARD_S
    while time.monotonic() < end:
        listed = httpx2.get(f"{url}/v1/sessions/a.b/{kind}", headers=HEADERS)
        if listed.status_code == 200 and listed.json():
            return
        time.sleep(0.01)
    raise AssertionError(f"No {kind} in time.")


def test_a_cell_is_listed_whole_and_approved_and_its_question_answered(
    service: str, says: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    executing = Executing(service, "log(1)\nlog(ask_user('Which \\x1b[2J account?\\na.b 9  cell 9'))")
    waiting(service, "approvals")
    assert says("people") == 0
    header, *code = capsys.readouterr().out.splitlines()
    assert header.startswith("a.b 1  cell 1 (python) waits for approval. Each cell has to be approved")
    assert code == ["  | log(1)", "  | log(ask_user('Which \\x1b[2J account?\\na.b 9  cell 9'))"]
    assert says("people", "approve", "a.b", "1") == 0
    waiting(service, "questions")
    assert says("people") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("a.b 2  cell 1 asks: Which ")
    assert "\x1b" not in shown
    assert shown.splitlines()[1:] == ["  | a.b 9  cell 9"]
    assert says("people", "--json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["kind"], one["session_id"], one["number"], one["url"]) == ("question", "a.b", 2, service)
    assert says("people", "answer", "a.b", "2", "the blue one") == 0
    executing.join(GUARD_S)
    assert executing.texts == ["1", "the blue one"]
    assert says("people") == 0
    assert capsys.readouterr().out == "Nothing waits for a person.\n"


def test_a_cell_is_denied_with_a_reason(service: str, says: Callable[..., int]) -> None:
    executing = Executing(service, "log(1)")
    waiting(service, "approvals")
    assert says("people", "deny", "a.b", "1", "--reason", "Not today.") == 0
    executing.join(GUARD_S)
    assert executing.texts == ["The cell was not executed: a person denied it. The reason given: Not today."]


def test_what_nobody_asks_cannot_be_answered(
    service: str, says: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    httpx2.post(f"{service}/v1/sessions", json={"session_id": "a.b"}, headers=HEADERS).raise_for_status()
    for words in (
        ("answer", "a.b", "7", "x"),
        ("approve", "a.b", "7"),
        ("deny", "a.b", "7"),
        ("answer", "none", "1", "x"),
    ):
        assert says("people", *words) == 2
    assert capsys.readouterr().err.count("Nothing of number 7 waits for this.") == 3
