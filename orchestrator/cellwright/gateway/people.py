"""What waits for a person, under `/v1/sessions/ID`: questions of its cells, and cells that have to be approved.

Flows in: answers and decisions of whoever holds the token. Flows out: what waits. Decided here: nothing; where the service asks nobody
(`serve --ask`, `serve --approve`), nothing waits.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from cellwright.approval import REASON_CHARS
from cellwright.asking import Approval
from cellwright.desk import Desk
from cellwright.gateway.described import SESSION, WAITING
from cellwright.gateway.sessions import ASession
from cellwright_kernel.wire import Language
from cellwright_kernel.wire_people import ANSWER_CHARS

router = APIRouter(prefix="/v1/sessions")


class QuestionView(BaseModel):
    """A question that waits for an answer."""

    number: int
    """By which it is answered."""
    cell: int | None
    """The cell that asks."""
    question: str
    """A stranger's words."""


class AnswerRequest(BaseModel):
    """An answer; the run keeps it."""

    model_config = ConfigDict(extra="forbid")

    answer: str = Field(min_length=1, max_length=ANSWER_CHARS, pattern=r"\S")


class ApprovalView(BaseModel):
    """A cell that waits for an approval, or something that is about to leave the sandbox."""

    number: int
    """By which it is decided."""
    cell: int | None
    """Null: no cell runs."""
    language: Language | None
    code: str
    """A stranger's; empty where no cell runs."""
    effect: str | None
    """What is about to leave, such as `POST example.com:80/order`; null: the cell itself waits."""
    rule: str
    """Why a person is asked."""
    screen: str | None
    """SHA-256 of what the desktop showed last, a blob of the run; `GET .../screen.png` shows it as it is now."""


class DecisionRequest(BaseModel):
    """What a person decides."""

    model_config = ConfigDict(extra="forbid")

    approve: bool
    reason: str | None = Field(default=None, max_length=REASON_CHARS)
    """Why; whoever drives the session is told where it is not approved."""


def _desk(session: ASession) -> Desk:
    return session.people.desk or Desk()


ADesk = Annotated[Desk, Depends(_desk)]


@router.get("/{session_id}/questions", responses=SESSION)
async def list_questions(desk: ADesk) -> list[QuestionView]:
    """List the questions that wait for an answer."""
    return [QuestionView(number=n, cell=one.cell, question=one.text) for n, one in desk.questions.items()]


@router.post("/{session_id}/questions/{number}", status_code=204, responses=WAITING)
async def answer_question(desk: ADesk, number: int, said: AnswerRequest) -> None:
    """Answer a question; the first answer counts."""
    desk.answer(number, said.answer)


@router.get("/{session_id}/approvals", responses=SESSION)
async def list_approvals(desk: ADesk) -> list[ApprovalView]:
    """List the cells that wait for an approval."""
    return [
        ApprovalView(
            number=n,
            cell=one.cell,
            language=one.language,
            code=one.code,
            effect=one.effect,
            rule=one.rule,
            screen=one.screen,
        )
        for n, one in desk.approvals.items()
    ]


@router.post("/{session_id}/approvals/{number}", status_code=204, responses=WAITING)
async def decide_approval(desk: ADesk, number: int, said: DecisionRequest) -> None:
    """Approve a cell, which is executed then, or deny it."""
    desk.decide(number, Approval(approved=said.approve, reason=said.reason))
