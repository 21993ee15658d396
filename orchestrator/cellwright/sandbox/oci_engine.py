"""The engine that makes sandboxes from the image, podman or docker: how it is found and called.

Flows in: an engine's name. Flows out: an `Engine` that says what can be had of it, and runs its commands. Decided here: which of
our environment an engine gets (where its storage or its daemon is, and nothing else), and what is said when it does not answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cellwright.errors import SandboxUnavailable

EngineName = Literal["podman", "docker"]

BUILD: Final = "bash sandbox_image/build.sh"
"""What makes the image; shown where it is missing."""
_ANSWER_S: Final = 30.0
"""Seconds that a command of the engine may take; 0.1 are usual, and an engine that was just installed makes its storage first."""
_BUS: Final = "DBUS_SESSION_BUS_ADDRESS"
_NEEDED: Final = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", _BUS)


@dataclass(frozen=True)
class Engine:
    """An engine that answers."""

    name: EngineName
    command: str
    """Its program's path."""
    rootless: bool
    """Whether whoever runs its sandboxes is an ordinary user."""
    cgroups: Literal["v1", "v2"]
    runtime: str | None = None
    """What it starts sandboxes with; absent: what it is set up with."""

    @property
    def words(self) -> tuple[str, ...]:
        """How a command of it begins. podman takes the runtime there, and looks for it again to remove what it started."""
        chosen = () if self.runtime is None or self.name != "podman" else ("--runtime", self.runtime)
        return (self.command, *chosen)

    @property
    def limits(self) -> bool:
        """Whether it can hold a sandbox to memory and processes: an ordinary user's can't with groups of version 1."""
        return not (self.rootless and self.cgroups == "v1")

    async def image_id(self, image: str) -> str:
        """Return an image's id.

        Raises:
            SandboxUnavailable: There is no such image.
        """
        status, said, _ = await self.run("image", "inspect", "--format", "{{.Id}}", image)
        if status != 0:
            raise SandboxUnavailable(
                f"{self.name} has no image {image}. Usually it was not built yet. Nothing was started. Run `{BUILD}`."
            )
        return said.strip()

    async def remove(self, sandbox: str) -> None:
        """End a sandbox of this name, if there is one, and remove what the engine keeps of it."""
        await _run(*self.removal(sandbox))

    def removal(self, sandbox: str) -> list[str]:
        """Return the command that does that."""
        at_once = ["--time", "0", "--ignore"] if self.name == "podman" else []
        return [*self.words, "rm", "--force", *at_once, sandbox]

    async def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command of the engine; return its status and what it said on both streams."""
        return await _run(*self.words, *words)


async def find_engine(name: EngineName, runtime: str | None = None) -> Engine:
    """Return an engine that answers, and has the runtime; takes 0.1 s.

    Raises:
        SandboxUnavailable: It is not there, does not answer, or has no such runtime.
    """
    command = shutil.which(name)
    if command is None:
        install = "bash scripts/setup.sh --podman" if name == "podman" else "apt-get install docker.io"
        raise SandboxUnavailable(
            f"There is no {name} on this machine. Nothing was started, isolated or not. Run `{install}`, or leave "
            "`--sandbox` out: bubblewrap needs no image."
        )
    status, said, complaint = await _run(command, "info", "--format", "{{json .}}")
    try:
        told = json.loads(said)
    except ValueError:
        told = {}
    if status != 0 or not isinstance(told, dict) or not told:
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        raise SandboxUnavailable(
            f"{name} does not answer: {last}. Usually its daemon does not run, or you may not use it. Nothing was started. "
            f"Run `{name} info` to see why."
        )
    engine = _as_told(name, command, told, runtime)
    if runtime is not None:
        await _require_runtime(engine, runtime, told)
    return engine


def engine_environment() -> dict[str, str]:
    """Return the environment that an engine is run with."""
    kept = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    if _BUS not in kept and not Path(kept.get("XDG_RUNTIME_DIR", "/nowhere"), "bus").exists():
        kept[_BUS] = "disabled:"  # or podman would start a bus, which outlives it
    # runc and its helpers lie in sbin
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **kept}


async def _require_runtime(engine: Engine, runtime: str, told: dict[str, Any]) -> None:
    if engine.name == "docker":
        known = sorted(told.get("Runtimes") or ())
        is_there, why = runtime in known, f"it knows: {', '.join(known) or 'none'}"
        mend = "Name it in /etc/docker/daemon.json, under `runtimes`, and start the daemon again"
    else:
        status, path, complaint = await engine.run("info", "--format", "{{.Host.OCIRuntime.Path}}")
        is_there, why = status == 0, (complaint.strip().splitlines() or ["it does not say why"])[-1]
        mend = "Install it, or give its program's path"
        if is_there:
            await _require_descriptors(path.strip())
    if not is_there:
        raise SandboxUnavailable(
            f"{engine.name} has no runtime {runtime} ({why}). Usually it is not installed. Nothing was started, with another "
            f"runtime or without. {mend}, or leave `--runtime` out."
        )


async def _require_descriptors(runtime: str) -> None:
    """Have podman's runtime be one that hands the door's descriptor down."""
    _, said, complaint = await _run(runtime, "create", "--help")
    if "preserve-fds" not in said + complaint:
        raise SandboxUnavailable(
            f"The runtime {runtime} hands no descriptor down (`--preserve-fds`), by which podman's sandboxes are reached. gVisor's "
            "runsc does not. Nothing was started. Use `--sandbox docker` with it, or leave `--runtime` out."
        )


def _as_told(name: EngineName, command: str, told: dict[str, Any], runtime: str | None) -> Engine:
    if name == "podman":
        host = told.get("host", {})
        rootless, version = bool(host.get("security", {}).get("rootless")), str(host.get("cgroupVersion"))
    else:
        rootless = "name=rootless" in (told.get("SecurityOptions") or [])
        version = f"v{told.get('CgroupVersion')}"
    return Engine(name, command, rootless, "v2" if version == "v2" else "v1", runtime)


async def _run(command: str, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        command, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=engine_environment(), cwd="/"
    )
    try:
        async with asyncio.timeout(_ANSWER_S):
            said, complaint = await process.communicate()
    except TimeoutError:
        return -1, "", f"no answer within {_ANSWER_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")
