"""The demo, `examples/expenses`: the application by itself, and the whole as `scripts/demo.sh` runs it."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image
from tests.e2e.conftest import EXAMPLE, DoneDemo

from cellwright.record import read_run, verify
from cellwright.record.records import Egress

FIRST = {
    "date": "2026-03-02",
    "merchant": "Deutsche Bahn",
    "category": "Travel",
    "amount": "89.90",
    "currency": "EUR",
    "note": "Köln – Berlin, second class",
}


def rows() -> list[dict[str, str]]:
    with (EXAMPLE / "expenses.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def demo_module() -> Any:
    spec = importlib.util.spec_from_file_location("expenses_demo", EXAMPLE / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Application:
    """The web application in a process of its own, spoken to without a browser."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        answer = httpx2.post(self.url + path, json=body, timeout=30, trust_env=False)
        return answer.status_code, answer.json()

    @property
    def stored(self) -> Any:
        return json.loads((self.folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    with demo_module().application(tmp_path) as url:
        yield Application(url, tmp_path)


@pytest.mark.slow
def test_every_row_of_the_file_is_a_good_entry(application: Application) -> None:
    for row in rows():
        assert application.post("entries", row)[0] == 200
    assert application.stored["entries"] == rows()
    assert application.stored["totals"] == {"EUR": "208.20", "USD": "59.99", "GBP": "14.50", "JPY": "2480"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"date": "2026-02-30"}, "date"),
        ({"date": "02.03.2026"}, "date"),
        ({"merchant": "  "}, "merchant"),
        ({"category": "Bribes"}, "category"),
        ({"currency": "XXX"}, "currency"),
        ({"amount": "89,90"}, "amount"),
        ({"amount": "0.00"}, "amount"),
        ({"amount": "1e3"}, "amount"),
        ({"amount": "-5.00", "note": ""}, "amount"),
        ({"amount": "10.50", "currency": "JPY"}, "amount"),
        ({"note": "x" * 201}, "note"),
    ],
)
def test_the_server_checks_each_field(application: Application, change: dict[str, str], field: str) -> None:
    status, answer = application.post("entries", FIRST | change)
    assert (status, list(answer["faults"])) == (422, [field])
    assert not (application.folder / "report.json").exists()


@pytest.mark.slow
def test_a_report_is_signed_by_a_line_and_then_closed(application: Application) -> None:
    picture = "data:image/png;base64,iVBORw0KGgoAAA=="
    line = [[x, 10] for x in range(20)]
    assert application.post("signature", {"strokes": [line], "picture": picture})[0] == 422  # nothing to sign yet
    assert application.post("entries", FIRST)[0] == 200
    assert application.post("signature", {"strokes": [line[:2]], "picture": picture})[0] == 422
    assert application.post("signature", {"strokes": [line], "picture": "data:,x"})[0] == 422
    assert application.post("signature", {"strokes": [line], "picture": picture})[0] == 200
    assert application.stored["signature"] == {"strokes": 1, "points": 20, "picture": "signature.png"}
    assert application.post("entries", FIRST)[0] == 422


@pytest.mark.slow
@pytest.mark.sandbox
def test_demo_fills_in_the_report(done_demo: DoneDemo) -> None:
    out = done_demo.out
    report = json.loads((out / "application" / "report.json").read_text(encoding="utf-8"))
    assert report["entries"] == rows()
    assert report["signature"]["points"] >= 40
    with Image.open(out / "desktop.png") as screenshot:
        assert screenshot.size == (1440, 1000)

    assert f"run         {done_demo.run}\n" in done_demo.printed
    assert (
        f"again       cellwright replay {done_demo.run.name} --env EXPENSES_URL=http://127.0.0.1:" in done_demo.printed
    )
    run = read_run(done_demo.run)
    assert (run.status, [cell.status for cell in run.cells]) == ("done", ["ok"] * 7)
    assert verify(done_demo.run).status == "whole"
    let_through = {
        (record.method, record.host) for record in run.records if isinstance(record, Egress) and record.allowed
    }
    assert let_through == {("CONNECT", "127.0.0.1")}


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda report: report["entries"].pop(), "entries"),
        (lambda report: report["entries"][0].update(merchant="Deutsche Bank"), "entries"),
        (lambda report: report["totals"].update(EUR="208.21"), "totals"),
        (lambda report: report.update(signature=None), "not signed"),
    ],
)
def test_demo_sees_a_wrong_report(tmp_path: Path, damage: Any, word: str) -> None:
    demo = demo_module()
    report = {"entries": rows(), "totals": dict(demo.TOTALS), "signature": {"strokes": 1, "points": 80, "picture": "x"}}
    (tmp_path / "signature.png").touch()
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert demo.faults_of_report(tmp_path) == []
    damage(report)
    (tmp_path / "report.json").write_text(json.dumps(report))
    (fault,) = demo.faults_of_report(tmp_path)
    assert word in fault
