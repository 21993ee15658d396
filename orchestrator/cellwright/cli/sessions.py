"""`cellwright sessions`: the open sessions of the services that run.

Flows in: what each service says of its sessions. Flows out: a table, or JSON. Decided here: that a session's service is
named only where several run.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer
from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError
from rich.text import Text

from cellwright.cli.service import Address, checked, running_services, service_client
from cellwright.cli.show import console_for_output
from cellwright.cli.tables import new_table, print_table
from cellwright.errors import CellwrightError
from cellwright.plain import plain


class _Open(BaseModel):
    session_id: str
    run_id: str
    opened_at: AwareDatetime
    cells: int
    executing: int | None
    idle_s: float

    def as_json(self) -> dict[str, object]:
        opened_at = self.opened_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {**self.model_dump(), "opened_at": opened_at}


_SESSIONS = TypeAdapter(list[_Open])


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(sessions)


def sessions(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False) -> None:
    """List the open sessions of `cellwright serve`."""
    services = running_services("Nothing is open. Start it.")
    found = [(service, session) for service in services for session in _sessions(service)]
    if as_json:
        listed = [{"url": service.url, **session.as_json()} for service, session in found]
        print(json.dumps(listed, ensure_ascii=True, indent=2))
        return
    console = console_for_output()
    if not found:
        urls = ", ".join(service.url for service in services)
        console.print(Text(f"No session is open at {urls}. `cellwright exec --session NAME CODE` opens one."))
        return
    is_named = len(services) > 1
    table = new_table(console, "session", "age", "cells", "state", *(["service"] if is_named else []), "run")
    for service, session in found:
        where = [service.url] if is_named else []
        cells = (_age(session), str(session.cells), _state(session), *where, session.run_id)
        table.add_row(*(Text(plain(word)) for word in (session.session_id, *cells)))
    print_table(table, console)


def _sessions(service: Address) -> list[_Open]:
    with service_client(service) as client:
        content = checked(client.get("/v1/sessions")).content
    try:
        return _SESSIONS.validate_json(content)
    except ValidationError as error:
        raise CellwrightError(
            f"The service at {service.url} did not list its sessions. Usually it is of another version. "
            "They go on undisturbed. To list them, end it, which ends them as well, and start it again."
        ) from error


def _state(session: _Open) -> str:
    return f"executing cell {session.executing}" if session.executing else f"idle for {_duration(session.idle_s)}"


def _age(session: _Open) -> str:
    return _duration(max(0.0, (datetime.now(UTC) - session.opened_at).total_seconds()))


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{int(seconds)} s"
    minutes = int(seconds) // 60
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
