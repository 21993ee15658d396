"""What a sandbox asks of its way out is recorded, and what is too much of it is counted."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from cellwright.egress import EgressRequest
from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.outgoing import REQUESTS, Outgoing
from cellwright.record.journal import open_run
from cellwright.record.reader import read_run
from cellwright.record.records import Egress, EgressMore, Exchanged, RequestSent, RunClosed
from cellwright.record.totals import totals_of
from cellwright.replay.effects import sent_by_cells
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.secret_uses import secrets_of

ASKED = EgressRequest(
    method="GET",
    host="example.com",
    port=80,
    allowed=True,
    reason="example.com",
    address="192.0.2.1",
    sent_bytes=10,
    received_bytes=100,
    started_at="2026-11-29T16:17:24.000Z",
    duration_ms=5,
)


NOTHING = Body(0, hashlib.sha256(b"").hexdigest(), b"")


def test_a_cell_that_asks_without_end_is_recorded_so_far_and_then_counted() -> None:
    executing: list[int | None] = [1]
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: executing[0])
        for number in range(REQUESTS + 40):
            outgoing.began()(replace(ASKED, allowed=number % 2 == 0))
        executing[0] = None
        outgoing.began()(ASKED)
        executing[0] = 2
        for _ in range(REQUESTS + 1):
            outgoing.began()(ASKED)
        outgoing.settle()
        outgoing.settle()
    run = read_run(journal.folder)
    kinds = [(type(record), record.cell) for record in run.records[:-1]]
    assert kinds == [
        *[(Egress, 1)] * REQUESTS,
        (EgressMore, 1),
        (Egress, None),
        *[(Egress, 2)] * REQUESTS,
        (EgressMore, 2),
    ]
    more = [record for record in run.records if isinstance(record, EgressMore)]
    counts = [(one.allowed, one.refused, one.sent_bytes, one.received_bytes) for one in more]
    assert counts == [(20, 20, 400, 4000), (1, 0, 10, 100)]
    totals = totals_of(run)
    assert (totals.egress_allowed, totals.egress_refused) == (1522, 520)
    assert run.records[0].started_at == ASKED.started_at


def test_a_connection_that_outlasts_its_cell_is_that_cells() -> None:
    executing: list[int | None] = [1]
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: executing[0])
        told = [outgoing.began() for _ in range(REQUESTS + 2)]
        executing[0] = 2
        outgoing.began()(ASKED)
        for tell in told:
            tell(ASKED)
        outgoing.began()(ASKED)
        outgoing.settle()
    kinds = [(type(record), record.cell) for record in read_run(journal.folder).records[:-1]]
    assert kinds == [(Egress, 2), *[(Egress, 1)] * REQUESTS, (Egress, 2), (EgressMore, 1)]


def test_nothing_is_recorded_of_what_the_run_itself_answers_however_long_it_lasts() -> None:
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: 1)
        outgoing.keeps_taped = False
        outgoing.began()(replace(ASKED, taped=True))
        outgoing.of_tape().request(Request("POST", "example.com", 80, "/", ()))
        outgoing.of_tape().unread("example.com", 443)
        outgoing.began()(ASKED)  # came while the tape answered, and asked once it did no more
        outgoing.unread("example.com", 443)
    assert [type(record) for record in read_run(journal.folder).records[:-1]] == [Egress, RequestSent]


def test_what_a_tape_answers_is_marked_as_that() -> None:
    traffic = Traffic(Request("POST", "example.com", 80, "/", ()), NOTHING, 200, "OK", (), NOTHING)
    with open_run(session_id="s", driver="replay", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: 1)
        for hears, taped in ((outgoing, False), (outgoing.of_tape(), True)):
            hears.request(traffic.request)
            hears.response(traffic, 1)
            hears.unread("example.com", 443)
            outgoing.began()(replace(ASKED, taped=taped))
        for _ in range(REQUESTS):
            outgoing.began()(replace(ASKED, taped=True))
        outgoing.settle()
    run = read_run(journal.folder)
    marked = [(type(record), getattr(record, "taped", None)) for record in run.records]
    kinds = (RequestSent, Exchanged, RequestSent, Egress)
    assert marked[:8] == [*((kind, False) for kind in kinds), *((kind, True) for kind in kinds)]
    assert marked[-2:] == [(EgressMore, True), (RunClosed, None)]
    assert sent_by_cells(run) == {
        1: ("POST http://example.com:80/", "something unreadable, encrypted usually, to example.com:443")
    }


def post(number: int) -> Request:
    return Request("POST", "example.com", 80, f"/{number}?{'q' * 5000}", ())


def test_a_cell_that_sends_without_end_does_not_fill_the_run() -> None:
    executing: list[int | None] = [1]
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: executing[0])
        for number in range(REQUESTS + 40):
            outgoing.request(post(number))
            outgoing.unread("example.com", 443)
        executing[0] = 2
        outgoing.request(post(0))
    sent = [record for record in read_run(journal.folder).records if isinstance(record, RequestSent)]
    assert [one.cell for one in sent] == [1] * (REQUESTS + 1) + [2]
    assert max(len(one.target) for one in sent) == 2000
    assert (sent[REQUESTS].method, sent[REQUESTS].target) == ("CONNECT", "")  # what follows may be anything


@pytest.mark.parametrize("said", [b"pw=p%40ss+word%21", b'{"pw": "p@ss word!"}', b"cEBzcyB3b3JkIQ=="])
def test_a_body_with_a_secret_in_any_form_is_not_kept(said: bytes) -> None:
    secrets = secrets_of(Spec(secrets=(SecretSpec(name="ONE"),)), {"ONE": "p@ss word!"})
    with open_run(session_id="s", driver="library", spec=Spec(), secrets=secrets) as journal:
        outgoing = Outgoing(journal, lambda: 1)
        for data in (said, b"nothing of it"):
            body = Body(len(data), hashlib.sha256(data).hexdigest(), data)
            outgoing.response(Traffic(post(1), body, 200, "", (), body), 1)
    kept = [one.request_body.kept for one in read_run(journal.folder).records if isinstance(one, Exchanged)]
    assert kept == [False, True]
    assert [path.read_bytes() for path in (journal.folder / "blobs").iterdir()] == [b"nothing of it"]
