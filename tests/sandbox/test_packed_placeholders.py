"""What stands for a secret, compressed or in a WebSocket's message: refused, and the code is told in its own language's way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import websockets.sync.server
from websockets.sync.server import ServerConnection

from cellwright.record import read_run
from cellwright.record.records import Egress
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TALK = """new Promise((done) => {
  const said = [], socket = new WebSocket('ws://127.0.0.1:PORT/');
  socket.onopen = () => socket.send('hello '.repeat(50));
  socket.onmessage = (event) => { said.push(event.data.length); socket.send('key=' + KEY) };
  socket.onclose = (event) => done(JSON.stringify([said, event.code, event.reason]));
})"""
TOLD = '[[300],1008,"What stands for secret ONE belongs into a header, not a message. It was not sent."]'
WAYS: tuple[tuple[Language, str], ...] = (
    ("javascript", f"const KEY = await secrets.header('ONE'); console.log(await {TALK})"),
    ("python", f"log(await page.evaluate('''KEY => {TALK}''', secrets.header('ONE')))"),
)
PACKED = """
import gzip, requests
body = gzip.compress(('key=' + secrets.header('ONE')).encode())
answer = requests.post('http://127.0.0.1:PORT/', data=body, headers={'Content-Encoding': 'gzip'})
log(answer.status_code); log(answer.text)
"""


@contextmanager
def echoing(heard: list[str]) -> Iterator[int]:
    def echo(connection: ServerConnection) -> None:
        for message in connection:
            heard.append(str(message))
            connection.send(message)

    with websockets.sync.server.serve(echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


class Posted(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(500, "It has come.")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@contextmanager
def posting() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Posted) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def spec(port: int) -> Spec:
    place = f"127.0.0.1:{port}"
    return Spec(secrets=(SecretSpec(name="ONE", hosts=(place,)),), allow=(place,))


@pytest.mark.parametrize(("language", "code"), WAYS)
async def test_a_websocket_says_why_it_was_closed(language: Language, code: str) -> None:
    heard: list[str] = []
    with echoing(heard) as port:
        async with Session.open(spec(port), secrets={"ONE": "Zebra-7!x+Y/z"}) as session:
            cell = await session.execute(code.replace("PORT", str(port)), language=language)
            assert cell.text == TOLD
    assert heard == ["hello " * 50]
    egress = [line.record for line in read_run(session.run_dir).lines if isinstance(line.record, Egress)]
    assert [(one.allowed, one.secrets) for one in egress] == [(False, ("ONE",))]


async def test_a_compressed_body_is_answered_with_the_reason() -> None:
    with posting() as port:
        async with Session.open(spec(port), secrets={"ONE": "Zebra-7!x+Y/z"}) as session:
            cell = await session.execute(PACKED.replace("PORT", str(port)))
    assert cell.text.startswith(
        f"403\nWhat stands for the secret ONE stood in the body of a request to 127.0.0.1:{port}. "
    )
