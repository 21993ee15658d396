"""A web application that is reached by HTTPS only, on loopback, with a certificate of its own."""

from __future__ import annotations

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LARGE_BYTES = 9 * 1024**2
"""Above what is kept of a body."""

PAGE = b"""<!doctype html><meta charset=utf-8><title>Shop</title><link rel=stylesheet href=/style.css><script src=/shop.js></script>
<body><h1>Gr\xc3\xbc\xc3\x9fe</h1><img id=logo src=/logo.svg><ul id=list></ul>"""
SCRIPT = b"""
const show = async () => { list.innerHTML = (await (await fetch('/items')).json()).map(i => `<li>${i}</li>`).join('') }
const add = async (name) => { await fetch('/items', { method: 'POST', body: name }); await show() }
const first = (n) => new Promise((done) => {
  const events = new EventSource('/events'), came = []
  events.onmessage = (event) => { came.push(event.data); if (came.length === n) { events.close(); done(came) } }
})
"""
LOGO = b'<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20" fill="red"/></svg>'


@dataclass
class Shop:
    """What was asked of it."""

    url: str = ""
    allow: str = ""
    items: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def secure_shop(folder: Path) -> Iterator[Shop]:
    """Serve it until the end of the block."""
    shop = Shop()

    class Handler(_Handler):
        pass

    Handler.shop = shop
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_certificate(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        shop.allow = f"127.0.0.1:{server.server_port}"
        shop.url = f"https://{shop.allow}"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield shop
        finally:
            server.shutdown()
            serving.join()


def _certificate(folder: Path) -> tuple[Path, Path]:
    own, key = folder / "own.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test".split()
    files = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", own]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return own, key


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shop: Shop

    def do_GET(self) -> None:
        self.shop.asked.append(f"GET {self.path}")
        match self.path:
            case "/":
                self.answer(PAGE, "text/html", ("Set-Cookie", "basket=7; HttpOnly"))
            case "/shop.js":
                self.answer(SCRIPT, "text/javascript")
            case "/style.css":
                self.answer(b"h1 { color: rgb(1, 2, 3) }", "text/css")
            case "/logo.svg":
                self.answer(LOGO, "image/svg+xml")
            case "/favicon.ico":
                self.answer(LOGO, "image/svg+xml")
            case "/items":
                self.answer(str(self.shop.items).replace("'", '"').encode(), "application/json")
            case "/cookie":
                self.answer((self.headers["Cookie"] or "").encode(), "text/plain")
            case "/away":
                self.answer(b"", "text/plain", ("Location", "/"), status=302)
            case "/file":
                self.answer(
                    b"0123456789" * 1000,
                    "application/octet-stream",
                    ("Content-Disposition", "attachment; filename=f.bin"),
                )
            case "/large":
                self.answer(b"x" * LARGE_BYTES, "text/plain")
            case "/events":
                self.stream()
            case _:
                self.answer(f"<title>{self.path}</title>".encode(), "text/html")

    def do_POST(self) -> None:
        self.shop.asked.append(f"POST {self.path}")
        self.shop.items.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.answer(b"done", "text/plain")

    def answer(self, body: bytes, kind: str, *headers: tuple[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for number in range(100):
                self.wfile.write(f"data: {number}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""
