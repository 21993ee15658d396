"""How the commands find a running `cellwright serve`, and what they make of its refusals.

Flows in: `CELLWRIGHT_URL` and `CELLWRIGHT_TOKEN`, or what the services wrote down for this user; a session. Flows out: an
HTTP client, and errors of the kind that the service said. Decided here: where services and token are written down, both for
this user only; that a service counts as running while it holds the lock of its file; which one is meant where several run.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2

from cellwright import errors
from cellwright.errors import CellwrightError, ServiceUnreachable, UsageError
from cellwright.record.folder import make_private, runs_folder


def state_folder() -> Path:
    """Return the folder of what Cellwright remembers for this user; the runs lie in it."""
    return runs_folder().parent


def token_file() -> Path:
    """Return the file that the service token is kept in."""
    return state_folder() / "token"


@contextmanager
def announced(url: str) -> Iterator[None]:
    """Write down where the service listens, for as long as it does; each service has a file of its own."""
    folder = _services()
    make_private(folder)
    for left in folder.glob("*.json"):  # by services that were killed
        if not _is_locked(left):
            left.unlink(missing_ok=True)
    name = secrets.token_hex(8)
    beginning, file = folder / f"{name}.part", folder / f"{name}.json"
    with os.fdopen(os.open(beginning, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        json.dump({"url": url}, out)
        out.flush()
        beginning.rename(file)  # whoever sees it sees it whole and locked
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Address:
    """Where a running service is."""

    url: str
    token: str = field(repr=False)


def running_services(otherwise: str) -> list[Address]:
    """Return where services run: at `CELLWRIGHT_URL` where that is set, else all of this user.

    Args:
        otherwise: What is left and what to do where there is none, in sentences.

    Raises:
        ServiceUnreachable: None is running.
    """
    named = os.environ.get("CELLWRIGHT_URL")
    running = [Address(url, _token()) for url in ([named] if named else _announced())]
    if not running:
        raise ServiceUnreachable(
            f"No `cellwright serve` of this user is running. Its sessions live as long as it does. {otherwise}"
        )
    return running


def address(session_id: str, otherwise: str) -> Address:
    """Return where the service is that a session is in, or is to be opened in.

    Args:
        session_id: It decides where several services run, and `CELLWRIGHT_URL` does not.
        otherwise: As for `running_services`.

    Raises:
        ServiceUnreachable: None is running.
        UsageError: Several are, and it cannot be told which one is meant.
    """
    running = running_services(otherwise)
    having = running if len(running) == 1 else [service for service in running if _has(service, session_id)]
    if len(having) == 1:
        return having[0]
    raise UsageError(
        f"{len(running)} services of this user are running, and {'several of them show' if having else 'none of them shows'} "
        f"a session {session_id!r}. Nothing ran. Set CELLWRIGHT_URL to the one that is meant: "
        f"{', '.join(service.url for service in running)}."
    )


@contextmanager
def service_client(service: Address) -> Iterator[httpx2.Client]:
    """Return a client of a running service.

    Raises:
        ServiceUnreachable: It does not answer.
    """
    url = service.url
    with _client(service, read_s=None) as client:  # a cell may take as long as its deadline says; the service owns time
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
    """Return a good response; raise what the service refused with, as the error that it was there, otherwise."""
    if response.is_error:
        raise refused(response.status_code, response.text)
    return response


def refused(status: int, body: str) -> CellwrightError:
    """Return a refusal of the service as an error of its kind, with the service's own sentence.

    Args:
        status: Its HTTP status.
        body: Its JSON; of anything else the status alone is told.
    """
    try:
        said = json.loads(body)
        sentence, kind = str(said["error"]), getattr(errors, str(said.get("kind")), None)
    except (ValueError, KeyError, TypeError, AttributeError):
        return CellwrightError(f"The service answered with status {status}.")
    if isinstance(kind, type) and issubclass(kind, CellwrightError):
        return kind(sentence)
    return CellwrightError(sentence)


def _services() -> Path:
    return state_folder() / "services"


def _token() -> str:
    try:
        return os.environ.get("CELLWRIGHT_TOKEN") or token_file().read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _announced() -> list[str]:
    """Return the URLs of the services that run, as they wrote them down."""
    try:
        files = sorted(_services().glob("*.json"))
    except OSError:
        return []
    return [url for file in files if _is_locked(file) and (url := _url(file))]


def _url(file: Path) -> str | None:
    try:
        url = json.loads(file.read_text())["url"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if isinstance(url, str) else None


def _is_locked(file: Path) -> bool:
    """Whether the service that wrote this lives: the lock ends with its process, however that ends."""
    try:
        with file.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # its service has just ended and removed it
        return False
    return False


def _has(service: Address, session_id: str) -> bool:
    try:
        with _client(service, read_s=5) as client:
            return client.get(f"/v1/sessions/{quote(session_id, safe='')}").is_success
    except httpx2.TransportError:
        return False


def _client(service: Address, *, read_s: float | None) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {service.token}"}
    return httpx2.Client(base_url=service.url, headers=headers, timeout=httpx2.Timeout(5, read=read_s), trust_env=False)
