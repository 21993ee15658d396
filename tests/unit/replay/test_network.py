"""Which answers of a run a replay's requests get: bodies say the same where they differ in what may differ, each at its moment."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cellwright.egress.traffic import Body, Request
from cellwright.record import Journal, Run
from cellwright.record.records import Exchanged, KeptBody, RequestSent
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.network import _MOST_BYTES, masks_of, tape_of
from cellwright.replay.set_values import NO_VALUES, SetValues

Made = Callable[..., Run]


def told_by(run: Run, *bodies: bytes, values: SetValues = NO_VALUES) -> list[str]:
    """Send bodies again, and return what is told of it."""
    told: list[str] = []

    def tell(sentence: str, *, matters: bool) -> None:  # noqa: ARG001 - each counts here
        told.append(sentence)

    tape = tape_of(run, tell, MayDiffer.read().with_values(values))
    for data in bodies:
        tape._answer_to(Request("POST", "x.test", 80, "/", ()), Body(len(data), hashlib.sha256(data).hexdigest(), data))
    return told


def posted(made: Made, data: bytes, at: str) -> Run:
    def fill(journal: Journal) -> None:
        sent = KeptBody(size_bytes=len(data), sha256=journal.blob(data))
        came = KeptBody(size_bytes=0, sha256=hashlib.sha256(b"").hexdigest())
        exchanged = Exchanged(
            at=at, method="POST", host="x.test", port=80, target="/", request_body=sent, status=200, body=came
        )
        journal.append(exchanged)

    return made(fill)


def test_a_moment_of_a_body_is_that_of_its_request_and_not_of_the_run(made: Made) -> None:
    run = posted(made, b'{"at": "2026-12-24T18:00:03Z"}', "2026-12-24T18:00:04.000Z")  # weeks after the run began
    assert told_by(run, f'{{"at": "{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}}'.encode()) == []


def test_what_is_no_moment_near_the_request_counts(made: Made) -> None:
    run = posted(made, b'{"at": "2026-11-29T16:17:25Z"}', "2026-12-24T18:00:04.000Z")
    (sentence,) = told_by(run, f'{{"at": "{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}}'.encode())
    assert sentence == "POST http://x.test:80/ was sent with another body than in the record."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("----WebKitFormBoundaryAbCdEfGh01234567", "----WebKitFormBoundary76543210hGfEdCbA"),
        ("0f3a5b7c9d1e2f4a6b8c0d2e4f6a8b0c", "1f3a5b7c9d1e4f4aab8c0d2e4f6a8b0c"),
    ],
)
def test_a_form_is_the_same_between_other_boundaries(made: Made, one: str, other: str) -> None:
    def form(boundary: str, value: str) -> bytes:
        head = 'Content-Disposition: form-data; name="a"'
        return f"--{boundary}\r\n{head}\r\n\r\n{value}\r\n--{boundary}--\r\n".encode()

    run = posted(made, form(one, "7"), "2026-12-24T18:00:04.000Z")
    assert told_by(run, form(other, "7")) == []
    assert len(told_by(run, form(other, "8"))) == 1


@pytest.mark.parametrize(("size_bytes", "count"), [(9 * 1024**2, 0), (9 * 1024**2 + 1, 1), (0, 0)])
def test_what_nobody_saw_whole_is_the_same_as_any_that_may_be_it(made: Made, size_bytes: int, count: int) -> None:
    def fill(journal: Journal) -> None:
        sent = KeptBody(size_bytes=size_bytes, sha256="", kept=False)
        came = KeptBody(size_bytes=0, sha256=hashlib.sha256(b"").hexdigest())
        journal.append(
            Exchanged(method="POST", host="x.test", port=80, target="/", request_body=sent, status=200, body=came)
        )

    assert len(told_by(made(fill), b"x" * 9 * 1024**2)) == count


async def test_what_was_told_to_go_out_and_has_no_answer_is_no_difference_as_often_as_it_went(made: Made) -> None:
    def fill(journal: Journal) -> None:
        journal.append(RequestSent(method="POST", host="x.test", port=443, target="/left", scheme="https"))

    told: list[tuple[str, bool]] = []

    def tell(sentence: str, *, matters: bool) -> None:
        told.append((sentence, matters))

    tape = tape_of(made(fill), tell, MayDiffer.read())
    for _ in range(2):
        await tape.answer(Request("POST", "x.test", 443, "/left", (), "https"), Body.of(b""))
    assert told == [
        ("POST https://x.test:443/left has no answer in the record.", False),
        ("POST https://x.test:443/left is not in the record.", True),
    ]


def test_another_value_of_a_parameter_is_found_in_a_body_in_any_script(made: Made) -> None:
    run = posted(made, "to=Zürich".encode() + b"\xff", "2026-12-24T18:00:04.000Z")
    values = SetValues((("Zürich", "Köln"),))
    assert told_by(run, "to=Köln".encode() + b"\xff", values=values) == []
    assert len(told_by(run, b"to=Kiel" + b"\xff", values=values)) == 1


def test_bytes_that_are_no_text_count(made: Made) -> None:
    run = posted(made, b"\xff\xfe in 1 ms", "2026-12-24T18:00:04.000Z")
    assert told_by(run, b"\xff\xfe in 2 ms") == []
    assert len(told_by(run, b"\xff\xfd in 2 ms")) == 1


def test_in_a_large_body_nothing_may_differ(made: Made) -> None:
    rest = b"x" * _MOST_BYTES
    run = posted(made, b"in 1 ms" + rest, "2026-12-24T18:00:04.000Z")
    assert told_by(run, b"in 1 ms" + rest) == []
    assert len(told_by(run, b"in 2 ms" + rest)) == 1


def test_the_browsers_word_on_a_certificate_is_not_compared_where_a_record_answers(made: Made) -> None:
    def png(width: int, height: int) -> bytes:
        return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + height.to_bytes(4)

    screen, plot = png(1440, 1000), png(640, 480)
    empty = KeptBody(size_bytes=0, sha256=hashlib.sha256(b"").hexdigest())
    asked = {"method": "GET", "host": "x.test", "port": 443, "target": "/", "request_body": empty, "body": empty}

    def fill(journal: Journal) -> None:
        journal.append(Exchanged(**asked, status=200, scheme="https", claimed=("status",)))

    run = made(fill)
    assert [len(masks_of(run, one, two)) for one, two in ((screen, screen), (screen, plot), (plot, plot))] == [1, 0, 0]
    in_clear = made(
        lambda journal: journal.append(Exchanged(**asked, status=200)) and None, run_id="2026-11-29-161724-ab12ce"
    )
    assert masks_of(in_clear, screen, screen) == ()
    assert masks_of(run, b"", b"\x89PNG") == ()
