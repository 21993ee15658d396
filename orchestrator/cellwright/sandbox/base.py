"""What a sandbox is to the rest of the outside, and what one is made from.

Flows in: a `Spec`. Flows out: a `Sandbox`, reached through its one `Door`.
Decided here: the fields of the Spec, and the two Protocols that every backend implements.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator

if TYPE_CHECKING:
    from cellwright.sandbox.door import Door


ENV_BYTES: Final = 64 * 1024
"""Most that an environment may have in all; the system takes 128 KiB in one word of a command line."""


def _fits(env: dict[str, str]) -> dict[str, str]:
    if sum(len(name.encode()) + len(value.encode()) for name, value in env.items()) > ENV_BYTES:
        raise ValueError(f"the environment has more than {ENV_BYTES} bytes")
    return env


Environment = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")],
        Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")],
    ],
    AfterValidator(_fits),
]
"""Variables as a process can have them."""


PARAM_NAME: Final = "[A-Za-z_][A-Za-z0-9_]{0,63}"
"""A name of a parameter, as a pattern; it may stand in code."""
PARAMS_BYTES: Final = 16 * 1024
"""Most that parameters may have as JSON, for the same reason: a control character has six there."""


def _fit(params: dict[str, str]) -> dict[str, str]:
    if len(json.dumps(params, ensure_ascii=False).encode()) > PARAMS_BYTES:
        raise ValueError(f"the parameters have more than {PARAMS_BYTES} bytes as JSON; give longer texts as files")
    return params


Params = Annotated[
    dict[
        Annotated[str, StringConstraints(pattern=f"^{PARAM_NAME}$")],
        Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")],
    ],
    AfterValidator(_fit),
]
"""What a run may have otherwise when it is done again, by name. Not secret: the run keeps the values."""


_FRAME_HEIGHT: Final = 100
"""Pixels that the browser's tab strip and toolbar may take; 87 in Chromium 156."""


class Limits(BaseModel):
    """What one sandbox may use. Which of them hold on this machine, `SandboxInfo.limits` says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: int = Field(default=4 * 1024**3, ge=512 * 1024**2)
    processes: int = 768
    """Processes and threads in all, above which cells get no more; Chromium alone has some 300."""
    open_files: int = 4096
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Processors, `0.5` half of one; absent: all of them, as far as other sandboxes leave them."""
    tmp_bytes: int = Field(default=512 * 1024**2, ge=16 * 1024**2)
    """Size of /tmp, of /dev/shm, of home, of what the kernel host itself keeps and of what the browser does, each."""


class SecretSpec(BaseModel):
    """A secret that cells can use and never see. Its value stands nowhere in the Spec."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    hosts: tuple[str, ...] = ()
    """`HOST[:PORT]` entries, as for `allow`: in requests to these alone its placeholder is replaced, and into pages of these
    alone it is typed. Empty: it is typed into any field, and has no placeholder."""


def _once(secrets: tuple[SecretSpec, ...]) -> tuple[SecretSpec, ...]:
    if len({secret.name for secret in secrets}) < len(secrets):
        raise ValueError("a secret is named twice")
    return secrets


class Spec(BaseModel):
    """The description from which a backend makes a sandbox; the run records it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: str = "bubblewrap"
    image: str = "localhost/cellwright-sandbox:latest"
    """What podman and docker make the sandbox from; to the other backends it is nothing."""
    runtime: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$")] | None = None
    """With what podman and docker start it, `runsc` for gVisor: a name that they know or, for podman, a program's path; absent:
    what they are set up with."""
    width: int = Field(default=1440, ge=640, le=3840)
    """Pixels of the desktop."""
    height: int = Field(default=1000, ge=480, le=2160)
    browser: bool = True
    """Whether Chromium is there; without it a session takes a quarter of the memory."""
    allow: tuple[str, ...] = ()
    """`HOST[:PORT]` entries of the egress allow-list; empty: no network."""
    files: tuple[Path, ...] = ()
    """Files or folders of the caller that are copied into the sandbox's home at start."""
    out: Path | None = None
    """Folder of the caller into which new and changed files of the sandbox's home are copied at close."""
    env: Environment = Field(default_factory=dict)
    """Environment of the kernels, besides what they are born with."""
    params: Params = Field(default_factory=dict)
    """Parameters of the run, which cells find as `params`. The run keeps their values, and a replay may have others."""
    deterministic: bool = False
    """Whether a replay is to find what can be fixed as it was: seeds, hashes, time zone, locale."""
    secrets: Annotated[tuple[SecretSpec, ...], AfterValidator(_once)] = ()
    """Secrets by name, and the hosts each is bound to."""
    cell_deadline_s: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    """Seconds until a cell is interrupted, unless the call or its code says otherwise."""
    deadline_limit_s: float = Field(default=3600.0, gt=0, allow_inf_nan=False)
    """Most seconds that a call, or code in its first line, may ask for."""
    limits: Limits = Limits()

    @field_validator("runtime")
    @classmethod
    def _is_an_engines(cls, runtime: str | None, so_far: ValidationInfo) -> str | None:
        if runtime is not None and (backend := so_far.data.get("backend")) not in ("podman", "docker"):
            raise ValueError(f"it is for podman and docker, and {backend} has no runtime of that kind")
        return runtime

    @property
    def longest_s(self) -> float:
        """Most seconds that a cell may take: the limit, or the deadline of every cell where that is longer."""
        return max(self.deadline_limit_s, self.cell_deadline_s)

    @property
    def viewport_height(self) -> int:
        """Pixels of a page's height: the desktop's, less what the browser's own frame takes."""
        return self.height - _FRAME_HEIGHT


class SandboxInfo(BaseModel):
    """What is in force in one sandbox, observed outside."""

    model_config = ConfigDict(frozen=True)

    backend: str
    isolated: bool
    """False only for `none`."""
    uid: int
    """The uid outside; never 0 for an isolated one."""
    pid: int
    """Process id outside of the sandbox's first process."""
    limits: dict[str, str]
    """Limit name -> by what means it is enforced, or `not enforced` with the reason."""


class Sandbox(Protocol):
    """One isolated place with one desktop and its kernels."""

    @property
    def info(self) -> SandboxInfo:
        """What is in force."""

    @property
    def door(self) -> Door:
        """The way to the kernel host."""

    async def ended(self) -> str:
        """Wait until the sandbox has ended by itself; return how, as a sentence."""

    async def close(self) -> None:
        """End every process in it and remove what it left; safe to call twice."""


class Backend(Protocol):
    """A way of making sandboxes."""

    name: str

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """Start a sandbox and return once it is usable.

        Args:
            spec: What to make it from.
            egress_socket: Unix socket of the session's egress proxy, already listening; absent: no network at all.

        Raises:
            SandboxUnavailable: with what is missing, what it usually means and what to do.
        """
