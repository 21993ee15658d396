"""Ways of making sandboxes, one file a backend; what they share is in `base`.

Flows in: a backend's name. Flows out: the backend. Decided here: which names there are. `build` below runs before anything
is installed, in the image's build, so nothing but the standard library is imported before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellwright.errors import UsageError

if TYPE_CHECKING:
    from cellwright.sandbox.base import Backend


def backend_named(name: str) -> Backend:
    """Return the backend of this name.

    Raises:
        UsageError: There is none.
    """
    match name:
        case "bubblewrap":
            from cellwright.sandbox.bubblewrap import BubblewrapBackend  # noqa: PLC0415 - only what is used is loaded

            return BubblewrapBackend()
        case "none":
            from cellwright.sandbox.unisolated import UnisolatedBackend  # noqa: PLC0415 - the same

            return UnisolatedBackend()
        case "podman":
            from cellwright.sandbox.podman import PodmanBackend  # noqa: PLC0415 - the same

            return PodmanBackend()
        case "docker":
            from cellwright.sandbox.docker import DockerBackend  # noqa: PLC0415 - the same

            return DockerBackend()
        case _:
            raise UsageError(
                f"There is no sandbox backend {name!r}. Use `bubblewrap`, `podman` or `docker`; `none` is for development."
            )
