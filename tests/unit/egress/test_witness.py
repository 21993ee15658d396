"""Reading along: whatever pieces the bytes come in, and never in the way of what cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cellwright.egress.traffic import BODY_BYTES, Request, Room, Traffic
from cellwright.egress.witness import Witness

Talk = list[tuple[str, bytes]]
"""`>` goes out, `<` comes in."""

GET: Talk = [
    (">", b"GET /a?b=1 HTTP/1.1\r\nHost: x.test\r\n\r\n"),
    ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: q\r\n\r\nhello"),
]
POST: Talk = [
    (">", b"POST /form HTTP/1.1\r\nHost: x.test\r\nContent-Length: 3\r\n\r\na=1"),
    (
        "<",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 303 See Other\r\nLocation: /\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
]
HEAD: Talk = [
    (">", b"HEAD / HTTP/1.1\r\nHost: x.test\r\n\r\n"),
    ("<", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
]
UNTIL_CLOSED: Talk = [
    (">", b"GET /old HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n"),
    ("<", b"HTTP/1.0 200 OK\r\n\r\nas long as it comes"),
    ("<", b""),
]
NOT_SWITCHED: Talk = [
    (">", b"GET /ws HTTP/1.1\r\nHost: x.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    ("<", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
]


class Told:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.traffic: list[Traffic] = []
        self.cells: list[int | None] = []
        self.opaque: list[tuple[str, int]] = []

    def request(self, request: Request) -> int:
        self.requests.append(request)
        return len(self.requests)

    def response(self, traffic: Traffic, cell: int | None) -> None:
        self.traffic.append(traffic)
        self.cells.append(cell)

    def unread(self, host: str, port: int) -> None:
        self.opaque.append((host, port))

    def short(self) -> list[tuple[str, str, bytes | None, int, bytes | None]]:
        return [
            (one.request.method, one.request.target, one.request_body.data, one.status, one.body.data)
            for one in self.traffic
        ]


def listen(talk: Talk, cut: Callable[[bytes], list[bytes]] = lambda data: [data]) -> tuple[Told, Witness]:
    told = Told()
    witness = Witness("x.test", 80, told, Room())
    for way, data in talk:
        for piece in cut(data):
            (witness.sent if way == ">" else witness.received)(piece)
    return told, witness


SHORT = {
    "get": (GET, ("GET", "/a?b=1", b"", 200, b"hello")),
    "post": (POST, ("POST", "/form", b"a=1", 303, b"ok")),
    "head": (HEAD, ("HEAD", "/", b"", 200, b"")),
    "not switched": (NOT_SWITCHED, ("GET", "/ws", b"", 403, b"")),
    "until closed": (UNTIL_CLOSED, ("GET", "/old", b"", 200, b"as long as it comes")),
}


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("size", [1, 2, 7, 100_000])
def test_a_request_and_its_response_in_pieces_of_every_size(name: str, size: int) -> None:
    talk, short = SHORT[name]
    told, _ = listen(talk, lambda data: [data[at : at + size] for at in range(0, len(data), size)] or [data])
    assert told.short() == [short]


def test_one_connection_carries_many() -> None:
    told, witness = listen([*GET, *POST, *HEAD, *NOT_SWITCHED, *GET, *UNTIL_CLOSED])
    assert [one[:2] for one in told.short()] == [
        ("GET", "/a?b=1"), ("POST", "/form"), ("HEAD", "/"), ("GET", "/ws"), ("GET", "/a?b=1"), ("GET", "/old"),
    ]  # fmt: skip
    assert told.cells == [1, 2, 3, 4, 5, 6]
    assert not witness.understands


def test_requests_that_do_not_wait_for_answers() -> None:
    told, witness = listen([(">", GET[0][1] + POST[0][1]), ("<", GET[1][1]), ("<", POST[1][1])])
    assert told.short() == [SHORT["get"][1], SHORT["post"][1]]
    assert witness.understands


def test_a_request_is_told_before_its_answer() -> None:
    told, _ = listen(POST[:1])
    headers = (("Host", "x.test"), ("Content-Length", "3"))
    assert told.requests == [Request("POST", "x.test", 80, "/form", headers)]
    assert told.traffic == []


def test_headers_are_kept_as_they_stood() -> None:
    told, _ = listen(GET)
    assert told.traffic[0].headers == (("Content-Length", "5"), ("ETag", "q"))


def test_of_a_large_body_only_the_size_and_the_hash_stay() -> None:
    size = BODY_BYTES + 1
    told, _ = listen([GET[0], ("<", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)])
    assert (told.traffic[0].body.size_bytes, told.traffic[0].body.data) == (size, None)


UNREAD: dict[str, Talk] = {
    "TLS": [(">", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")],
    "HTTP/2": [(">", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")],
    "who speaks first": [("<", b"220 mail.test ESMTP\r\n\r\n")],
    "an answer that is none": [GET[0], ("<", b"no http at all\r\n\r\n")],
    "an endless head": [(">", b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 70_000)],
    "a WebSocket": [
        NOT_SWITCHED[0],
        ("<", b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x01a"),
    ],
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_cannot_be_read_is_left_alone_and_told_when_more_goes_out(name: str) -> None:
    told, witness = listen([*UNREAD[name], *GET, *GET])
    assert not witness.understands
    assert (told.opaque, told.short()) == ([("x.test", 80)], [])


def test_an_answer_before_the_whole_request_is_the_last() -> None:
    begun = (">", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1")
    told, witness = listen([begun, ("<", b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"), (">", b"2345678")])
    assert told.short() == [("POST", "/", b"1", 400, b"")]
    assert (witness.understands, told.opaque) == (False, [("x.test", 80)])


def held_bytes(witness: Witness) -> int:
    bodies = [gathering._held or b"" for gathering in (witness._sent, witness._came)]
    waiting = [connection.trailing_data[0] for connection in (witness._out, witness._in)]
    return sum(len(part) for part in (*bodies, *waiting))


@pytest.mark.parametrize("flood", [b"x" * 65536, GET[0][1] * 1000])
def test_what_is_sent_behind_a_request_that_is_never_answered_is_not_held(flood: bytes) -> None:
    told, witness = listen([GET[0], *[(">", flood)] * 100])
    assert (witness.understands, told.opaque, held_bytes(witness)) == (False, [("x.test", 80)], 0)


def test_bodies_that_are_still_coming_share_a_room_and_give_it_back() -> None:
    room = Room(100)
    head = b"POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 60\r\n\r\n"
    told = Told()
    first, second, third = (Witness("x.test", 80, told, room) for _ in range(3))
    first.sent(head + b"a" * 60)
    second.sent(head + b"b" * 60)  # finds no room
    for witness in (first, second):
        witness.received(b"HTTP/1.1 204 No Content\r\n\r\n")
    third.sent(head + b"c" * 60)
    third.received(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert [one.request_body.data for one in told.traffic] == [b"a" * 60, None, b"c" * 60]
    assert [one.request_body.size_bytes for one in told.traffic] == [60, 60, 60]
    assert room.take(100)


def test_a_connection_that_ends_gives_back_what_it_held() -> None:
    room = Room(100)
    witness = Witness("x.test", 80, Told(), room)
    witness.sent(b"POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 60\r\n\r\n" + b"a" * 59)
    assert not room.take(100)
    witness.close()
    witness.close()
    assert room.take(100)
    assert not room.take(1)
