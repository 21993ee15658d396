"""The sandbox image run by itself, as a container of anybody's: the guide's `POST /execute` for one session."""

from __future__ import annotations

import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from tests.engines import needs

from cellwright.sandbox.base import Spec
from cellwright.testing.service import check_execution_service

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, needs("podman")]

READY_S = 30.0
TOKEN = secrets.token_hex(20)
OPTIONS = (
    *"--rm --detach --publish 127.0.0.1::8080 --read-only --cap-drop all --security-opt no-new-privileges".split(),
    *"--ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --shm-size 512m --no-healthcheck".split(),
    *"--security-opt seccomp=sandbox_image/seccomp.json --tmpfs /home/agent:rw,exec,mode=0700,U".split(),
    *"--tmpfs /run/kernel-host:rw,mode=0700,U --tmpfs /run/browser:rw,size=512m,mode=0700,U".split(),
)
"""As `docs/sandbox_image.md` has them; the limits of files and processes are for machines whose root may not raise them."""


def podman(*words: str) -> str:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture
def url() -> Iterator[str]:
    container = podman("run", *OPTIONS, "--env", f"CELLWRIGHT_TOKEN={TOKEN}", Spec().image)
    try:
        url = f"http://{podman('port', container, '8080')}"
        end = time.monotonic() + READY_S
        while not is_ready(url) and time.monotonic() < end:
            time.sleep(0.1)
        assert "without its own sandbox" not in podman("logs", container)
        yield url
    finally:
        podman("rm", "--force", "--time", "0", container)


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:  # noqa: S310 - of our own container
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


async def test_it_conforms_to_the_guides_contract_but_for_other_sessions(url: str) -> None:
    gaps = ("python_sessions_are_apart",)
    report = await check_execution_service(url, TOKEN, languages=("python", "javascript"), known_gaps=gaps)
    assert report.known_gaps == gaps
