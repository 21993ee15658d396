"""How the commands find a running `cellwright serve`.

Flows in: `CELLWRIGHT_URL` and `CELLWRIGHT_TOKEN`, or what the service wrote down for this user. Flows out: an HTTP client.
Decided here: where service and token are written down, both for this user only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from cellwright.errors import CellwrightError, ServiceUnreachable
from cellwright.record.folder import make_private, runs_folder


def state_folder() -> Path:
    """Return the folder of what Cellwright remembers for this user; the runs lie in it."""
    return runs_folder().parent


def token_file() -> Path:
    """Return the file that the service token is kept in."""
    return state_folder() / "token"


@contextmanager
def announced(url: str) -> Iterator[None]:
    """Write down where the service listens, for as long as it does."""
    file = state_folder() / "service.json"
    make_private(file.parent)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        json.dump({"url": url, "pid": os.getpid()}, out)
    try:
        yield
    finally:
        if _written().get("pid") == os.getpid():
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Address:
    """Where the running service is."""

    url: str
    token: str = field(repr=False)


def address() -> Address:
    """Return where the running service is.

    Raises:
        ServiceUnreachable: None is running.
    """
    url = os.environ.get("CELLWRIGHT_URL") or _written().get("url")
    if url is None:
        raise ServiceUnreachable(
            "No `cellwright serve` of this user is running. Its sessions live as long as it does. Nothing ran. "
            "Start it, or leave --session out to open a session for this one cell."
        )
    try:
        token = os.environ.get("CELLWRIGHT_TOKEN") or token_file().read_text().strip()
    except OSError:
        token = ""
    return Address(url, token)


@contextmanager
def service_client() -> Iterator[httpx2.Client]:
    """Return a client of the running service.

    Raises:
        ServiceUnreachable: None is running, or it does not answer.
    """
    service = address()
    url, headers = service.url, {"Authorization": f"Bearer {service.token}"}
    # a cell may take as long as its deadline says; the service owns time
    with httpx2.Client(base_url=url, headers=headers, timeout=httpx2.Timeout(5, read=None), trust_env=False) as client:
        try:
            yield client
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise ServiceUnreachable(
                f"No `cellwright serve` answers at {url}. Usually it has ended. Nothing ran. Start it again."
            ) from error
        except httpx2.TransportError as error:
            raise ServiceUnreachable(
                f"The connection to `cellwright serve` at {url} broke off. Usually it was ended, and its sessions with it. "
                "What had run until then stands in their runs; `cellwright runs` lists them. Start it again."
            ) from error


def checked(response: httpx2.Response) -> httpx2.Response:
    """Return a good response; raise the service's own sentence otherwise."""
    if response.is_error:
        raise CellwrightError(_sentence(response))
    return response


def _sentence(response: httpx2.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"The service answered with status {response.status_code}."


def _written() -> dict[str, Any]:
    try:
        found = json.loads((state_folder() / "service.json").read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
