"""Our own service passes the suite that anybody's may be put through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.serving import running_service

from cellwright.testing.service import check_execution_service

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


async def test_serve_conforms_to_the_guides_contract(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        report = await check_execution_service(service.url, service.token, languages=("python", "javascript"))
    assert report.known_gaps == ()


def test_exec_shares_variables_through_a_running_service(tmp_path: Path) -> None:
    def execute(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cellwright", "exec", *arguments]
        return subprocess.run(
            command, input=code, capture_output=True, text=True, env=service.environment, check=False, timeout=60
        )

    with running_service(tmp_path) as service:
        assert service.printed[1:] == (
            f"export OPENAI_EXAMPLE_CODE_EXECUTION_URL={service.url}",
            f"export OPENAI_EXAMPLE_CODE_EXECUTION_TOKEN={service.token}",
            "ready",
        )
        assert execute("--session", "s", "x = 41").returncode == 0
        assert execute("--session", "s", "log(x + 1)").stdout == "42\n"
        (tmp_path / "file.py").write_text("log(x + 2)")
        assert execute("--session", "s", "--lang", "py", "-f", str(tmp_path / "file.py")).stdout == "43\n"
        assert execute("--session", "s", "-", code="log(x + 3)").stdout == "44\n"
        assert '"status":"ok"' in execute("--session", "s", "--json", "log(x)").stdout
        failed = execute("--session", "s", "1 / 0")
        assert (failed.returncode, "ZeroDivisionError: division by zero" in failed.stdout) == (1, True)
    alone = execute("--session", "s", "log(x)")
    assert (alone.returncode, "No `cellwright serve`" in alone.stderr) == (2, True)
