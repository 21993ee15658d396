"""A record's answers in place of the network."""

from __future__ import annotations

import asyncio
import hashlib
import threading

import h11
import pytest

from cellwright.egress.tape import Tape
from cellwright.egress.traffic import Body, Headers, Request, Traffic

pytestmark = pytest.mark.asyncio


def body(data: bytes) -> Body:
    return Body(len(data), hashlib.sha256(data).hexdigest(), None)


def traffic(method: str, target: str, sent: bytes, status: int, came: bytes, *, headers: Headers = ()) -> Traffic:
    return Traffic(Request(method, "x.test", 80, target, ()), body(sent), status, "", headers, body(came))


class Bench:
    def __init__(self, *recorded: Traffic, bodies: tuple[bytes, ...] = ()) -> None:
        self.missed: list[str] = []
        kept = {hashlib.sha256(data).hexdigest(): data for data in bodies}
        self.tape = Tape(recorded, kept.get, self.tell, lambda _, one, two: one.lower() == two.lower())

    def tell(self, sentence: str, *, matters: bool) -> None:
        self.missed.append(f"{'!' if matters else '?'} {sentence}")

    async def ask(self, *requests: tuple[str, str, bytes]) -> list[tuple[int, bytes, dict[str, str]]]:
        """Ask over one connection."""
        reader, writer = await self.tape.connect("x.test", 80)
        conn = h11.Connection(h11.CLIENT)
        answers = []
        for method, target, data in requests:
            headers = [("Host", "x.test"), ("Content-Length", str(len(data)))]
            writer.write(conn.send(h11.Request(method=method, target=target, headers=headers)) or b"")
            writer.write((conn.send(h11.Data(data=data)) or b"") + (conn.send(h11.EndOfMessage()) or b""))
            answers.append(await self._answer(conn, reader))
            conn.start_next_cycle()
        writer.close()
        await writer.wait_closed()
        return answers

    async def _answer(self, conn: h11.Connection, reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, str]]:
        status, data, headers = 0, b"", {}
        while True:
            match conn.next_event():
                case h11.Response() as event:
                    status = event.status_code
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                case h11.Data(data=piece):
                    data += bytes(piece)
                case h11.EndOfMessage():
                    return status, data, headers
                case _:
                    conn.receive_data(await reader.read(65536))


async def test_the_recorded_answer_is_given() -> None:
    bench = Bench(
        traffic("GET", "/a", b"", 200, b"hello", headers=(("ETag", "q"), ("Transfer-Encoding", "chunked"))),
        bodies=(b"hello",),
    )
    assert await bench.ask(("GET", "/a", b"")) == [(200, b"hello", {"etag": "q", "content-length": "5"})]
    assert bench.missed == []


async def test_answers_come_in_the_order_of_the_record_and_reading_again_gives_the_last() -> None:
    bench = Bench(traffic("GET", "/", b"", 200, b"one"), traffic("GET", "/", b"", 200, b"two"), bodies=(b"one", b"two"))
    said = [data for _, data, _ in await bench.ask(*[("GET", "/", b"")] * 4)]
    assert said == [b"one", b"two", b"two", b"two"]


async def test_what_changes_something_is_answered_once() -> None:
    bench = Bench(traffic("POST", "/pay", b"10", 303, b""))
    (first, *_), (second, sentence, _) = await bench.ask(("POST", "/pay", b"10"), ("POST", "/pay", b"10"))
    assert (first, second) == (303, 502)
    assert sentence == b"POST http://x.test:80/pay is not in the record.\n"
    assert bench.missed == ["! POST http://x.test:80/pay is not in the record."]


async def test_the_same_body_comes_before_a_like_one_and_that_before_any() -> None:
    bodies = (b"1", b"2", b"3", b"a", b"A", b"c")
    recorded = [traffic("POST", "/", sent, 200, came) for sent, came in ((b"c", b"1"), (b"A", b"2"), (b"a", b"3"))]
    bench = Bench(*recorded, bodies=bodies)
    said = await bench.ask(("POST", "/", b"a"), ("POST", "/", b"a"), ("POST", "/", b"x"))
    assert [data for _, data, _ in said] == [b"3", b"2", b"1"]
    assert bench.missed == ["! POST http://x.test:80/ was sent with another body than in the record."]


@pytest.mark.parametrize(("method", "target", "mark"), [("GET", "/b", "?"), ("POST", "/a", "!")])
async def test_what_was_not_asked_then_is_refused_and_told(method: str, target: str, mark: str) -> None:
    bench = Bench(traffic("GET", "/a", b"", 204, b""))
    says = f"{method} http://x.test:80{target} is not in the record."
    assert [(status, data) for status, data, _ in await bench.ask((method, target, b""))] == [
        (502, f"{says}\n".encode())
    ]
    assert bench.missed == [f"{mark} {says}"]


async def test_an_answer_that_was_not_kept_is_refused_and_told() -> None:
    bench = Bench(traffic("GET", "/large", b"", 200, b"x" * 9))
    says = "The answer to GET http://x.test:80/large was not kept: it has 9 bytes."
    assert [(status, data) for status, data, _ in await bench.ask(("GET", "/large", b""))] == [
        (502, f"{says}\n".encode())
    ]
    assert bench.missed == [f"? {says}"]


async def test_answers_without_a_body() -> None:
    bench = Bench(
        traffic("HEAD", "/", b"", 200, b"", headers=(("Content-Length", "5000"),)),
        traffic("GET", "/same", b"", 304, b""),
        traffic("GET", "/nothing", b"", 204, b""),
    )
    said = await bench.ask(("HEAD", "/", b""), ("GET", "/same", b""), ("GET", "/nothing", b""))
    assert [(status, data, headers.get("content-length")) for status, data, headers in said] == [
        (200, b"", "5000"), (304, b"", None), (204, b"", None),
    ]  # fmt: skip


async def test_what_is_encrypted_is_told_and_matters_whoever_connects() -> None:
    bench = Bench()
    reader, writer = await bench.tape.connect("x.test", 443)
    writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert bench.missed == ["! x.test:443 was spoken to in a way that is not recorded: encrypted, usually."]


async def test_tape_that_is_lifted_answers_no_more_and_ends_its_connections() -> None:
    bench = Bench(traffic("GET", "/", b"", 200, b"hello"), bodies=(b"hello",))
    assert [answer[:2] for answer in await bench.ask(("GET", "/", b""))] == [(200, b"hello")]
    reader, writer = await bench.tape.connect("x.test", 80)
    await asyncio.sleep(0)  # it is being served
    bench.tape.lift()
    assert await reader.read() == b""
    assert bench.tape.is_lifted
    writer.close()
    await writer.wait_closed()


async def test_a_request_that_breaks_off_is_told_and_does_not_matter() -> None:
    bench = Bench()
    reader, writer = await bench.tape.connect("x.test", 80)
    writer.write(b"POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 9\r\n\r\n1234")
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert bench.missed == ["? A request to x.test:80 broke off."]


async def test_an_answer_that_is_no_http_is_told() -> None:
    bench = Bench(traffic("GET", "/", b"", 200, b"", headers=(("Bad header", "x"),)))
    reader, writer = await bench.tape.connect("x.test", 80)
    writer.write(b"GET / HTTP/1.1\r\nHost: x.test\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert [said.partition(":80")[0] for said in bench.missed] == ["! What the record says of x.test"]


async def test_tape_that_was_lifted_is_connected_to_no_more() -> None:
    bench = Bench(traffic("GET", "/", b"", 200, b"hello"), bodies=(b"hello",))
    bench.tape.lift()
    with pytest.raises(ConnectionAbortedError):
        await bench.tape.connect("x.test", 80)


async def test_connection_that_is_being_made_while_the_tape_is_lifted_is_answered_no_more() -> None:
    bench = Bench(traffic("GET", "/", b"", 200, b"hello"), bodies=(b"hello",))
    connecting = asyncio.ensure_future(bench.tape.connect("x.test", 80))
    await asyncio.sleep(0)
    bench.tape.lift()
    with pytest.raises(ConnectionAbortedError):
        await connecting


async def test_others_go_on_while_bodies_are_compared() -> None:
    goes_on, compared = threading.Event(), threading.Event()
    bench = Bench(traffic("POST", "/", b"a", 200, b""), bodies=(b"a",))

    def alike(_: Traffic, one: bytes, two: bytes) -> bool:
        compared.set()
        return goes_on.wait(10) and one.lower() == two.lower()

    bench.tape = Tape([traffic("POST", "/", b"a", 200, b"")], {body(b"a").sha256: b"a"}.get, bench.tell, alike)
    asking = asyncio.ensure_future(bench.ask(("POST", "/", b"A")))
    assert await asyncio.to_thread(compared.wait, 10)
    goes_on.set()
    assert [status for status, _, _ in await asking] == [200]
    assert bench.missed == []


def secure(sent: Body, came: bytes) -> Traffic:
    return Traffic(Request("POST", "x.test", 80, "/", (), "https"), sent, 200, "", (), body(came))


UNSEEN = Body(0, "", None)


async def test_what_came_by_https_is_no_answer_in_clear_nor_the_other_way_round() -> None:
    bench = Bench(
        secure(body(b"a"), b"by https"), traffic("POST", "/", b"a", 200, b"in clear"), bodies=(b"by https", b"in clear")
    )
    found = await bench.tape.answer(Request("POST", "x.test", 80, "/", (), "https"), body(b"a"))
    assert found[1] == b"by https"
    assert (await bench.ask(("POST", "/", b"a")))[0][1] == b"in clear"
    said = await bench.tape.answer(Request("POST", "x.test", 80, "/", (), "https"), body(b"a"))
    assert said == "POST https://x.test:80/ is not in the record."
    assert bench.missed == [f"! {said}"]


@pytest.mark.parametrize(("then", "now"), [(UNSEEN, body(b"a")), (body(b"a"), UNSEEN), (UNSEEN, UNSEEN)])
async def test_a_body_that_nobody_saw_is_the_same_as_any(then: Body, now: Body) -> None:
    bench = Bench(secure(then, b"done"), bodies=(b"done",))
    found = await bench.tape.answer(Request("POST", "x.test", 80, "/", (), "https"), now)
    assert (found[1], bench.missed) == (b"done", [])


async def test_a_response_that_nobody_saw_the_end_of_is_not_taken_for_an_empty_one() -> None:
    bench = Bench(Traffic(Request("GET", "x.test", 443, "/", (), "https"), body(b""), 200, "", (), UNSEEN))
    assert bench.tape.knows(Request("GET", "x.test", 443, "/", (), "https"))
    assert not bench.tape.knows(Request("GET", "x.test", 443, "/icon", (), "https"))
    said = await bench.tape.answer(Request("GET", "x.test", 443, "/", (), "https"), body(b""))
    assert said == (
        "The answer to GET https://x.test:443/ was not kept: of it 0 bytes had come, of a stream, a download or a page that was "
        "left, usually, or of what holds a secret."
    )
