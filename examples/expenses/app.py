"""A small web application with an expense report: the place where the demo's task is done.

    python app.py --state FOLDER [--port PORT]      prints `ready http://127.0.0.1:PORT/`

Flows in: entries and a signature, as JSON from the page. Flows out: `FOLDER/report.json` and `FOLDER/signature.png`.
Decided here, and not in the page: what an entry must be, and that a report is signed by a drawn line. Only the standard
library is used.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import json
import re
import signal
import sys
import threading
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CATEGORIES = ("Travel", "Lodging", "Meals", "Books", "Other")
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")
BODY_BYTES = 1024 * 1024
SIGNATURE_POINTS = 12
PAGE = Path(__file__).with_name("page.html")

_AMOUNT = re.compile(r"-?[0-9]{1,6}(\.[0-9]{2})?")
_PNG = "data:image/png;base64,"


class Refused(Exception):
    """What was sent is not acceptable: field -> sentence."""

    def __init__(self, **faults: str) -> None:
        super().__init__("; ".join(faults.values()))
        self.faults = faults


class Report:
    """The report on disk. Every change is written before it is answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._path = folder / "report.json"
        self._entries: list[dict[str, str]] = []
        self._signature: dict[str, Any] | None = None
        if self._path.exists():
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            self._entries, self._signature = stored["entries"], stored["signature"]

    def stored(self) -> dict[str, Any]:
        """Return the report as it is on disk."""
        return {"entries": self._entries, "totals": _totals(self._entries), "signature": self._signature}

    def add(self, fields: dict[str, Any]) -> None:
        """Check an entry and keep it."""
        entry = _checked(fields)
        with self._lock:
            self._refuse_changes()
            self._entries.append(entry)
            self._write()

    def remove(self, index: int) -> None:
        """Take an entry out again."""
        with self._lock:
            self._refuse_changes()
            if not 0 <= index < len(self._entries):
                raise Refused(entry="There is no such entry.")
            del self._entries[index]
            self._write()

    def submit(self, fields: dict[str, Any]) -> None:
        """Close the report with a signature."""
        picture, strokes = _checked_signature(fields)
        with self._lock:
            self._refuse_changes()
            if not self._entries:
                raise Refused(signature="The report has no entry yet.")
            (self._folder / "signature.png").write_bytes(picture)
            points = sum(len(stroke) for stroke in strokes)
            self._signature = {"strokes": len(strokes), "points": points, "picture": "signature.png"}
            self._write()

    def _refuse_changes(self) -> None:
        if self._signature is not None:
            raise Refused(signature="The report is submitted and cannot be changed.")

    def _write(self) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.stored(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        new.replace(self._path)


def _totals(entries: list[dict[str, str]]) -> dict[str, str]:
    sums: dict[str, Decimal] = {}
    for entry in entries:
        sums[entry["currency"]] = sums.get(entry["currency"], Decimal(0)) + Decimal(entry["amount"])
    return {currency: str(sums[currency]) for currency in CURRENCIES if currency in sums}


def _checked(fields: dict[str, Any]) -> dict[str, str]:
    names = ("date", "merchant", "category", "amount", "currency", "note")
    entry = {name: " ".join(str(fields.get(name, "")).split()) for name in names}
    faults = {}
    if not _is_date(entry["date"]):
        faults["date"] = "Choose a date."
    if not 1 <= len(entry["merchant"]) <= 80:
        faults["merchant"] = "Name the merchant, in at most 80 characters."
    if entry["category"] not in CATEGORIES:
        faults["category"] = "Choose a category."
    if entry["currency"] not in CURRENCIES:
        faults["currency"] = "Choose a currency."
    if fault := _fault_of_amount(entry):
        faults["amount"] = fault
    if len(entry["note"]) > 200:
        faults["note"] = "At most 200 characters."
    if faults:
        raise Refused(**faults)
    return entry


def _fault_of_amount(entry: dict[str, str]) -> str | None:
    amount = entry["amount"]
    if not _AMOUNT.fullmatch(amount) or Decimal(amount) == 0:
        return "Like 1234.50, or -1234.50 for a refund."
    if ("." in amount) == (entry["currency"] == "JPY"):
        return "Yen have no decimals." if entry["currency"] == "JPY" else "Write both decimals, like 12.00."
    if Decimal(amount) < 0 and not entry["note"]:
        return "A refund needs a note that says what for."
    return None


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _checked_signature(fields: dict[str, Any]) -> tuple[bytes, list[list[Any]]]:
    strokes = fields.get("strokes")
    if not isinstance(strokes, list) or not all(isinstance(stroke, list) for stroke in strokes):
        raise Refused(signature="Draw your signature.")
    if sum(len(stroke) for stroke in strokes) < SIGNATURE_POINTS:
        raise Refused(signature="That is a dot and no signature. Draw it with the pointer held down.")
    try:
        picture = base64.b64decode(str(fields.get("picture", "")).removeprefix(_PNG), validate=True)
    except binascii.Error as error:
        raise Refused(signature="The signature's picture is damaged.") from error
    if not picture.startswith(b"\x89PNG\r\n"):
        raise Refused(signature="The signature's picture is no PNG.")
    return picture, strokes


class Handler(BaseHTTPRequestHandler):
    """The routes: the page, the report, its entries, its signature."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    report: Report

    def do_GET(self) -> None:
        """Answer with the page or the report."""
        if self.path == "/":
            self._answer(200, PAGE.read_bytes(), "text/html; charset=utf-8")
        elif self.path == "/report":
            self._answer_report()
        else:
            self._answer(404, b"", "text/plain")

    def do_POST(self) -> None:
        """Add an entry, or submit the report."""
        match self.path:
            case "/entries":
                self._change(self.report.add)
            case "/signature":
                self._change(self.report.submit)
            case _:
                self._answer(404, b"", "text/plain")

    def do_DELETE(self) -> None:
        """Remove an entry."""
        index = self.path.removeprefix("/entries/")
        if index.isdecimal():
            self._change(lambda _: self.report.remove(int(index)))
        else:
            self._answer(404, b"", "text/plain")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Stay silent: what counts is on disk."""

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            change(self._body())
        except Refused as refused:
            body = json.dumps({"faults": refused.faults}).encode()
            self._answer(422, body, "application/json")
        else:
            self._answer_report()

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            self.close_connection = True
            raise Refused(entry="That is too much.")
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError as error:
            raise Refused(entry="That is no JSON.") from error
        if not isinstance(body, dict):
            raise Refused(entry="That is no JSON object.")
        return body

    def _answer_report(self) -> None:
        choices = {"categories": CATEGORIES, "currencies": CURRENCIES}
        body = json.dumps({**self.report.stored(), **choices}, ensure_ascii=False).encode()
        self._answer(200, body, "application/json")

    def _answer(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="An expense report to be filled in.")
    parser.add_argument("--state", type=Path, required=True, help="folder of the report; made if missing")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    options = parser.parse_args()
    options.state.mkdir(parents=True, exist_ok=True)
    Handler.report = Report(options.state)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with ThreadingHTTPServer(("127.0.0.1", options.port), Handler) as server:
        print(f"ready http://127.0.0.1:{server.server_port}/", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
