"""`cellwright people`: what waits for a person in the sessions of `cellwright serve`, and what that person says.

Flows in: a session, a number, an answer or a decision. Flows out: a list, or JSON; nothing, once something was said. Decided here: that code is
shown whole before it is approved, as `cellwright people` lists it.
"""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import quote

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError
from rich.text import Text

from cellwright.cli.service import Address, address, checked, running_services, service_client
from cellwright.cli.show import console_for_output
from cellwright.cli.terminal import columns, folded
from cellwright.errors import CellwrightError
from cellwright.plain import barred, plain

_OTHERWISE = "Nothing waits. Start it."


class _Question(BaseModel):
    number: int
    cell: int | None
    question: str


class _Approval(BaseModel):
    number: int
    cell: int | None
    language: str | None
    code: str
    effect: str | None
    rule: str
    screen: str | None


class _Session(BaseModel):
    session_id: str
    run_id: str


_SESSIONS = TypeAdapter(list[_Session])
_QUESTIONS = TypeAdapter(list[_Question])
_APPROVALS = TypeAdapter(list[_Approval])

ASession = Annotated[str, typer.Argument(metavar="SESSION", help="As `cellwright people` lists it.")]
ANumber = Annotated[int, typer.Argument(metavar="N", min=1, help="As `cellwright people` lists it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="What waits for a person in the sessions of `cellwright serve`: list it, answer, approve, deny."
    )
    group.callback(invoke_without_command=True)(people)
    group.command("answer")(answer)
    group.command("approve")(approve)
    group.command("deny")(deny)
    app.add_typer(group, name="people")


def people(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """List questions and cells that wait for a person in the sessions of `cellwright serve`; or answer, approve, deny."""
    if context.invoked_subcommand is not None:
        return
    found = [one for service in running_services(_OTHERWISE) for one in _waiting(service)]
    if as_json:
        print(json.dumps(found, ensure_ascii=True, indent=2))
        return
    console = console_for_output()
    if not found:
        console.print(Text("Nothing waits for a person."))
    for one in found:
        style = "bold yellow"
        if one["kind"] == "question":
            words = f"{one['session_id']} {one['number']}  cell {one['cell']} asks: {barred(str(one['question']))}"
            code = ""
        else:
            who = "something" if one["cell"] is None else f"cell {one['cell']} ({one['language']})"
            what = "waits for approval." if one["effect"] is None else f"is about to send: {one['effect']}"
            words = f"{one['session_id']} {one['number']}  {who} {what} {one['rule']}"
            code = barred(f"\n{one['code']}") if one["code"] else ""
        shown = [plain(words), plain(code)]
        if console.is_terminal:
            shown = [folded(one, columns(console)) for one in shown]
        console.print(Text(shown[0], style=style), Text(shown[1]), sep="", soft_wrap=True)


def answer(
    session: ASession, number: ANumber, text: Annotated[str, typer.Argument(help="The answer; the run keeps it.")]
) -> None:
    """Answer a question of a cell."""
    _say(session, f"questions/{number}", {"answer": text})


def approve(session: ASession, number: ANumber) -> None:
    """Have a cell executed."""
    _say(session, f"approvals/{number}", {"approve": True})


def deny(
    session: ASession,
    number: ANumber,
    reason: Annotated[
        str | None, typer.Option(help="Why; whoever drives the session is told.", show_default=False)
    ] = None,
) -> None:
    """Have a cell not executed."""
    _say(session, f"approvals/{number}", {"approve": False, "reason": reason})


def _say(session: str, where: str, body: dict[str, object]) -> None:
    with service_client(address(session, "Nothing was said.")) as client:
        checked(client.post(f"/v1/sessions/{quote(session, safe='')}/{where}", json=body))


def _waiting(service: Address) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    with service_client(service) as client:
        try:
            for session in _SESSIONS.validate_json(checked(client.get("/v1/sessions")).content):
                path = f"/v1/sessions/{quote(session.session_id, safe='')}"
                about = {"url": service.url, "session_id": session.session_id, "run_id": session.run_id}
                questions = _QUESTIONS.validate_json(checked(client.get(f"{path}/questions")).content)
                approvals = _APPROVALS.validate_json(checked(client.get(f"{path}/approvals")).content)
                found += [{**about, "kind": "question", **one.model_dump()} for one in questions]
                found += [{**about, "kind": "approval", **one.model_dump()} for one in approvals]
        except ValidationError as error:
            raise CellwrightError(
                f"The service at {service.url} did not say what waits. Usually it is of another version. Its sessions go on undisturbed."
            ) from error
    return found
