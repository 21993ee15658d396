"""The way out of a real sandbox: what is allowed is reached without being told how, and nothing else is reached."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest
import pytest_asyncio
import websockets.sync.server
from websockets.sync.server import ServerConnection

from cellwright.egress.rules import Address
from cellwright.outgoing import REQUESTS
from cellwright.record import read_run
from cellwright.record.records import Egress, EgressMore
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Language, Text

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]


class Greeter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"hello {self.headers['Host'].partition(':')[0]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@pytest.fixture(scope="module")
def greeter() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Greeter) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port
        server.shutdown()
        serving.join()


@pytest.fixture
def echo() -> Iterator[int]:
    """A WebSocket that says everything twice."""

    def twice(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(f"{message!s} {message!s}")

    with websockets.sync.server.serve(twice, "127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        serving.join()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[(), ("example.com",)], ids=["nothing", "another"])
async def refusing(request: pytest.FixtureRequest) -> AsyncIterator[Session]:
    """A session that may reach nothing that is asked for here, with or without a list."""
    async with Session.open(Spec(allow=request.param)) as session:
        yield session


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def greeted(greeter: int) -> AsyncIterator[Session]:
    """A session that may reach the greeter."""
    async with Session.open(Spec(allow=(f"127.0.0.1:{greeter}",))) as session:
        yield session


async def said(session: Session, code: str) -> str:
    cell: Cell = await session.execute(code)
    return cell.text


def notices(cell: Cell) -> list[str]:
    return [output.text for output in cell.outputs if isinstance(output, Text) and output.source == "notice"]


async def test_everything_reaches_an_allowed_service_and_nothing_else(greeter: int, echo: int) -> None:
    async with Session.open(Spec(allow=(f"127.0.0.1:{greeter}", f"localhost:{echo}"))) as session:
        url = f"http://127.0.0.1:{greeter}/"
        ways = {
            f"import urllib.request; log(urllib.request.urlopen('{url}').read().decode())": "hello 127.0.0.1",
            f"import requests; log(requests.get('http://localhost:{greeter}/').text)": "hello localhost",
            f"import subprocess; log(subprocess.check_output(['curl', '-s', '{url}'], text=True))": "hello 127.0.0.1",
            f"await page.goto('{url}'); log(await page.inner_text('body'))": "hello 127.0.0.1",
            f"log(requests.get('{url}', proxies={{'http': 'http://127.0.0.1:3128'}}).text)": "hello 127.0.0.1",
            f"""log(await page.evaluate('''new Promise((done, fail) => {{
                const socket = new WebSocket("ws://localhost:{echo}/")
                socket.onopen = () => socket.send("again")
                socket.onmessage = event => done(event.data)
                socket.onerror = () => fail("no socket")
            }})'''))""": "again again",
        }
        for code, expected in ways.items():
            assert await said(session, code) == expected, code

        for url_of in (f"http://localhost:{greeter}/", f"http://127.0.0.1:{greeter}/"):
            fetched = await session.execute(f"await (await fetch('{url_of}')).text()", language="javascript")
            assert fetched.text == f"'hello {url_of.split('/')[2].partition(':')[0]}'"

        refusal = (
            "is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with `--allow HOST"
        )
        assert refusal in await said(session, "log(requests.get('http://example.com/').text)")
        assert f"example.com:443 {refusal}" in await said(session, "requests.get('https://example.com/')")
        assert refusal in await said(session, "log(requests.get('http://169.254.169.254/latest/meta-data/').text)")
        assert "ERR_" in await said(session, "await page.goto('https://example.com/')")
        assert "resol" in await said(session, "import socket; socket.getaddrinfo('example.com', 80)")
        unreachable = "import socket; socket.create_connection(('8.8.8.8', 53), 2)"
        assert "Network is unreachable" in await said(session, unreachable)
        folder = session.run_dir

    requests = [record for record in read_run(folder).records if isinstance(record, Egress)]
    assert {(r.host, r.port) for r in requests if r.allowed} == {("127.0.0.1", greeter), ("localhost", echo)}
    # Chromium may have asked for a host of its own meanwhile, which is refused like any other
    refused = {(r.host, r.port) for r in requests if not r.allowed}
    assert refused >= {("example.com", 80), ("example.com", 443), ("169.254.169.254", 80)}


WAYS: dict[str, tuple[Language, str, str]] = {
    "urllib": ("python", "import urllib.request; urllib.request.urlopen('http://HOST/').read().decode()", "hello"),
    "requests": ("python", "import requests; requests.get('http://HOST/').text", "hello"),
    "curl": ("python", "!curl -s http://HOST/", "hello"),
    "pip": ("python", "!pip download --retries 1 -i http://HOST/ --trusted-host HOST thing", "thing"),
    "a page": ("python", "await page.goto('http://HOST/'); await page.inner_text('body')", "hello"),
    "fetch": ("javascript", "await (await fetch('http://HOST/')).text()", "hello"),
    "http": (
        "javascript",
        "await new Promise(done => require('http').get('http://HOST/', r => r.on('data', d => done(`${d}`))))",
        "hello",
    ),
    "a program of Node's": (
        "javascript",
        "require('child_process').execFileSync(process.execPath, ['-e', 'fetch(`http://HOST/`).then(r => r.text())"
        ".then(console.log)']).toString()",
        "hello",
    ),
}
"""What programs ask for by HTTP, and what is then in the answer."""
SOCKETS: dict[str, tuple[Language, str]] = {
    "Node": ("javascript", "await new Promise((done, fail) => { const socket = new WebSocket('ws://HOST/'); TALK })"),
    "a page": (
        "javascript",
        "await page.evaluate(() => new Promise((done, fail) => { const socket = new WebSocket('ws://HOST/'); TALK }))",
    ),
}
TALK = (
    "socket.onopen = () => socket.send('again'); socket.onmessage = event => done(event.data);"
    " socket.onerror = () => fail(new Error('no socket'))"
)


async def test_every_program_goes_the_way_out_untold_and_is_in_the_journal_with_its_cell(
    greeter: int, echo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a name that nothing inside can resolve; what is refused is refused by a sentence, whoever asked."""

    async def resolve(host: str, _: int) -> list[Address]:
        assert host == "app.example"
        return [ip_address("127.0.0.1")]

    monkeypatch.setattr("cellwright.egress.proxy._ask_system", resolve)
    allow = tuple(f"{host}:{port}" for host in ("app.example", "127.0.0.1") for port in (greeter, echo))
    rows = {name: (language, code, greeter, says) for name, (language, code, says) in WAYS.items()}
    for name, (language, code) in SOCKETS.items():
        rows[f"a WebSocket of {name}"] = (language, code.replace("TALK", TALK), echo, "again again")
    asked: dict[int, tuple[str, bool]] = {}
    async with Session.open(Spec(allow=allow)) as session:
        for name, (language, code, port, says) in rows.items():
            cell = await session.execute(code.replace("HOST", f"app.example:{port}"), language=language, deadline_s=30)
            assert says in cell.text, (name, cell.text)
            asked[cell.number] = ("app.example", True)
            # pip tells why only of a tunnel, and when it tries again
            code = code.replace("http://", "https://") if name == "pip" else code  # noqa: PLW2901
            cell = await session.execute(code.replace("HOST", "refused.example"), language=language, deadline_s=30)
            sentence = f"refused.example:{443 if name == 'pip' else 80} is not on the allow-list"
            # of what a page asks for by itself, its script is told
            assert sentence in cell.text or name == "a WebSocket of a page", (name, cell.text)
            asked[cell.number] = ("refused.example", False)
        folder = session.run_dir
    records = [record for record in read_run(folder).records if isinstance(record, Egress)]
    assert {
        number: {(r.host, r.allowed) for r in records if r.cell == number} >= {one} for number, one in asked.items()
    } == dict.fromkeys(asked, True)
    assert all(record.received_bytes > 0 and record.address == "127.0.0.1" for record in records if record.allowed)


async def test_without_an_allow_list_there_is_no_way_out(greeter: int) -> None:
    async with Session.open(Spec()) as session:
        assert await said(session, "import os; log(os.path.exists('/run/egress'))") == "False"
        connect = f"import socket; socket.create_connection(('127.0.0.1', {greeter}), 2)"
        assert "Connection refused" in await said(session, connect)


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_page_that_is_refused_names_the_rule(refusing: Session, language: Language) -> None:
    """Chromium says ERR_TUNNEL_CONNECTION_FAILED whatever the proxy answers; the cell says why, and the next one does not."""
    cell = await refusing.execute("await page.goto('https://example.org/')", language=language)
    assert "ERR_TUNNEL_CONNECTION_FAILED" in cell.text
    assert notices(cell) == [
        "example.org:443 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
        f"`--allow HOST[:PORT]`; it allows {', '.join(refusing.spec.allow) or 'nothing'}."
    ]
    assert [output.source for output in (await refusing.execute("1 + 1", language=language)).outputs] == ["result"]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_page_without_tls_that_is_refused_is_told_of_though_nothing_fails(
    refusing: Session, language: Language
) -> None:
    cell = await refusing.execute("await page.goto('http://example.org/'); await page.title()", language=language)
    assert cell.status == "ok"
    assert notices(cell) == [
        "A page was refused, and the browser shows the refusal in its place: example.org:80 is not on the allow-list of this "
        f"sandbox. Whoever starts it can open a host to it, with `--allow HOST[:PORT]`{'.' if refusing.spec.allow else '; it allows nothing.'}"
    ]
    assert [output.source for output in (await refusing.execute("1 + 1", language=language)).outputs] == ["result"]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_code_that_goes_on_after_a_page_that_failed_is_told_what_to_wait_for(
    greeted: Session, greeter: int, language: Language
) -> None:
    """Playwright says that a page failed before Chromium has shown so; whatever comes next may meet that page."""
    failing = {
        "python": "try: await page.goto('https://example.org/')\nexcept Exception: pass\n",
        "javascript": "await page.goto('https://example.org/').catch(() => {});\n",
    }[language]
    wait_for = {"python": "page.wait_for_url", "javascript": "page.waitForURL"}[language]
    wait = f"await {wait_for}('chrome-error://chromewebdata/')"
    going = f"await page.goto('http://127.0.0.1:{greeter}/')"
    for _ in range(8):
        cell = await greeted.execute(failing + going, language=language)
        assert cell.status == "ok" or f"wait for that page first: {wait}" in cell.text
    for _ in range(8):
        assert (await greeted.execute(f"{failing}{wait}\n{going}", language=language)).status == "ok"


async def test_the_proxy_socket_cannot_be_removed_or_replaced(greeted: Session, greeter: int) -> None:
    remove = "import os; os.unlink('/run/egress/proxy.sock')"
    assert "Read-only file system" in await said(greeted, remove)
    assert "hello" in await said(
        greeted, f"import urllib.request; log(urllib.request.urlopen('http://127.0.0.1:{greeter}/').read())"
    )


async def test_a_cell_that_asks_without_end_does_not_fill_the_run(greeter: int) -> None:
    code = (
        "import http.client\n"
        "for _ in range(1100):\n"
        "    way = http.client.HTTPConnection('127.0.0.1', 3128); way.request('GET', 'http://refused.example/')\n"
        "    way.getresponse().read(); way.close()\n"
    )
    async with Session.open(Spec(allow=(f"127.0.0.1:{greeter}",))) as session:
        assert (await session.execute(code)).status == "ok"
    records = read_run(session.run_dir).records
    singly = [record for record in records if isinstance(record, Egress) and record.host == "refused.example"]
    more = sum(record.refused for record in records if isinstance(record, EgressMore))
    assert sum(isinstance(record, Egress) and record.cell == 1 for record in records) <= REQUESTS
    assert len(singly) + more >= 1100
    assert all(record.started_at <= record.at for record in singly)
