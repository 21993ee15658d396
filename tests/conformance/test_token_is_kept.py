"""The service's token, with a real `cellwright serve`: shown once, when it is made, and never again, nor written anywhere else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.serving import ENDED_S

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GIVEN = "given-" + "g" * 40


def test_a_token_is_shown_when_it_is_made_and_never_again(tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    first, token = served(environment, tmp_path)
    assert first.startswith("Cellwright listens at http://127.0.0.1:")
    assert (len(token) >= 32, first.count(token)) == (True, 1)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    second, same = served(environment, tmp_path)
    assert (same, second.count(token)) == (token, 0)
    (shown,) = re.findall(r"^export OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN=(.*)$", second, re.MULTILINE)
    said = subprocess.run(["/bin/sh", "-c", f"printf %s {shown}"], capture_output=True, text=True, check=True).stdout
    assert said == token
    given, _ = served({**environment, "CELLWRIGHT_TOKEN": GIVEN}, tmp_path)
    assert (given.count(GIVEN), given.count(token)) == (0, 0)
    holding = [path for path in tmp_path.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["token"]


def served(environment: dict[str, str], state: Path) -> tuple[str, str]:
    """Have a service answer good and bad requests; return all that it printed, and its token."""
    command = [sys.executable, "-m", "cellwright", "serve", "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            printed = ""
            while not printed.endswith("ready\n"):
                line = process.stdout.readline() if process.stdout else ""
                assert line, printed
                printed += line
            token = environment.get("CELLWRIGHT_TOKEN") or (state / "token").read_text().strip()
            ask(printed.split()[3], token)
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=ENDED_S)
    return printed + rest, token


def ask(url: str, token: str) -> None:
    right = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=url, trust_env=False, timeout=60) as client:
        body = {"session_id": "s", "language": "python", "code": "import os; log(dict(os.environ))"}
        answer = client.post("/execute", json=body, headers=right)
        assert (answer.status_code, token in answer.text) == (200, False)
        for path in (f"/v1/sessions?token={token}", f"/{token}", f"/v1/sessions?access_token={token}"):
            assert client.get(path).status_code == 401  # in a URL it is worth nothing
        assert client.get("/v1/sessions", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        wrong = client.post("/execute", content=b"{", headers=right)
        assert (wrong.status_code, token in wrong.text) == (400, False)
        for name, path in (("Host", "/health"), ("Origin", "/execute")):
            refused = client.get(path, headers={**right, name: "http://evil.example"})
            assert (refused.status_code, token in refused.text) == (403, False)
