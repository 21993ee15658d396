"""What cells of a real sandbox send, where a person has to approve it: held, while the cell's deadline does not run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cellwright.asking import Approval, Pending
from cellwright.people import People
from cellwright.record import read_run, verify
from cellwright.replay.replay import Again, replay
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b"<title>shop</title>")

    def do_POST(self) -> None:
        self.server.orders.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self._answer(b"ordered")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@pytest.fixture
def shop() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        server.orders = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Person:
    """Decides after a while, which is longer than the cell has."""

    def __init__(self, *decisions: Approval) -> None:
        self.decisions = list(decisions)
        self.shown: list[Pending] = []

    async def approve(self, pending: Pending) -> Approval:
        self.shown.append(pending)
        await asyncio.sleep(3)
        return self.decisions.pop(0)


async def test_an_order_is_held_until_it_is_approved_or_denied_and_reading_is_free(shop: ThreadingHTTPServer) -> None:
    """The cells have two seconds, the person takes three; a replay, with the shop gone, has the same decisions."""
    place = f"127.0.0.1:{shop.server_port}"
    person = Person(Approval(approved=True), Approval(approved=False, reason="Too dear."))
    people = People(approver=person, approve="effects")
    through = (
        "import http.client, os\n"
        "def through(method, path, body=None):\n"
        "    way = http.client.HTTPConnection(os.environ['HTTP_PROXY'].removeprefix('http://').strip('/'))\n"
        f"    way.request(method, 'http://{place}' + path, body)\n"
        "    answer = way.getresponse()\n"
        "    print(answer.status, answer.read().decode().strip())\n"
        "through('GET', '/')\n"
    )
    order = "through('POST', '/order', b'one')"
    spec = Spec(browser=False, allow=(place,), cell_deadline_s=2)
    async with Session.open(spec, people=people) as session:
        first, second = await session.execute(through + order), await session.execute(order)
    assert (first.status, first.text) == ("ok", "200 <title>shop</title>\n200 ordered\n")
    assert (
        second.text
        == f"403 {place}: a person denied what was to be sent. Nothing was sent. The reason given: Too dear.\n"
    )
    assert shop.orders == [b"one"]  # type: ignore[attr-defined]
    assert [(p.cell, p.effect) for p in person.shown] == [(1, f"POST {place}/order"), (2, f"POST {place}/order")]
    assert verify(session.run_dir).status == "whole"
    replayed = await replay(read_run(session.run_dir), Again())
    assert [cell.verdict for cell in replayed.cells] == ["same", "same"], [cell.reasons for cell in replayed.cells]
    assert shop.orders == [b"one"]  # type: ignore[attr-defined]
