"""What an engine is asked for, and what is understood of what it tells: no engine is needed here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from cellwright.cli.options import SpecOptions
from cellwright.errors import SandboxUnavailable, UsageError
from cellwright.sandbox import backend_named
from cellwright.sandbox.base import Spec
from cellwright.sandbox.docker import _DockerStart
from cellwright.sandbox.oci_engine import Engine, EngineName, find_engine
from cellwright.sandbox.place import take_place
from cellwright.sandbox.podman import _PodmanStart

TOLD: list[tuple[EngineName, object, tuple[bool, str, bool]]] = [
    ("podman", {"host": {"cgroupVersion": "v1", "security": {"rootless": False}}}, (False, "v1", True)),
    ("podman", {"host": {"cgroupVersion": "v1", "security": {"rootless": True}}}, (True, "v1", False)),
    ("podman", {"host": {"cgroupVersion": "v2", "security": {"rootless": True}}}, (True, "v2", True)),
    ("docker", {"CgroupVersion": "1", "SecurityOptions": ["name=seccomp,profile=default"]}, (False, "v1", True)),
    ("docker", {"CgroupVersion": "2", "SecurityOptions": ["name=rootless"]}, (True, "v2", True)),
    ("docker", {"CgroupVersion": "1", "SecurityOptions": None}, (False, "v1", True)),
]


def stand_in(folder: Path, name: str, says: str, status: int = 0) -> None:
    """Put a program in an engine's place that answers `info`."""
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\necho 'no daemon' >&2\nexit {status}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("name", "told", "understood"), TOLD)
async def test_an_engine_tells_what_it_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: EngineName, told: object, understood: tuple[bool, str, bool]
) -> None:
    stand_in(tmp_path, name, json.dumps(told))
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = await find_engine(name)
    assert (engine.rootless, engine.cgroups, engine.limits) == understood


async def test_an_engine_that_does_not_answer_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "docker", "", 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="docker does not answer: no daemon"):
        await find_engine("docker")


async def test_docker_has_the_runtimes_that_its_daemon_was_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "docker", json.dumps({"CgroupVersion": "2", "Runtimes": {"runc": {}, "runsc": {}}}))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await find_engine("docker", "runsc")).runtime == "runsc"
    with pytest.raises(SandboxUnavailable, match=r"docker has no runtime crun \(it knows: runc, runsc\)\."):
        await find_engine("docker", "crun")


@pytest.mark.parametrize("backend", ["podman", "docker"])
async def test_the_runtime_stands_in_the_command_that_starts_a_sandbox(backend: EngineName) -> None:
    engine = Engine(backend, backend, rootless=False, cgroups="v2", runtime="runsc")
    start = _PodmanStart if backend == "podman" else _DockerStart
    place = take_place()
    try:
        words = start(engine, "image", Spec(backend=backend, runtime="runsc"), place, None).command("fd:3")
    finally:
        place.leave()
    at = words.index("--runtime")
    assert words[at + 1] == "runsc"
    assert (at < words.index("run")) == (backend == "podman"), "podman takes it before its command, docker after"
    assert at < words.index("image")


@pytest.mark.parametrize("backend", ["bubblewrap", "none"])
def test_a_runtime_is_refused_where_nothing_would_use_it(backend: str) -> None:
    with pytest.raises(ValidationError, match=f"it is for podman and docker, and {backend} has no runtime"):
        Spec(backend=backend, runtime="runsc")
    with pytest.raises(
        UsageError, match=r"--runtime: .*it is for podman and docker.*\(given: 'runsc'\)\. Nothing was started"
    ):
        SpecOptions(sandbox=backend, runtime="runsc").spec()
    assert SpecOptions(sandbox="podman", runtime="runsc").spec().runtime == "runsc"


def test_every_backend_has_its_name() -> None:
    assert [backend_named(name).name for name in ("bubblewrap", "podman", "docker", "none")] == [
        *("bubblewrap", "podman", "docker", "none")
    ]
    with pytest.raises(UsageError, match="no sandbox backend 'lxc'"):
        backend_named("lxc")
