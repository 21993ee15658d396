"""What hostile code finds when it looks for a way out: `probes.jsonl` has a row for each way, and each leads nowhere.

A row has its `kind`, what is so (`does`), the `code` of a cell, and the lines that the cell `says`; its `language`, where
that is not Python; its `backends`, where it is not for all, since the image has a root file system of its own, and bubblewrap
the machine's; `says_of`, where one of them says otherwise. All run in one sandbox, with a second one beside it and everything of `outside.py` out here. What the
code of a row may use besides is in `helpers.py`, which is the first cell.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.engines import needs
from tests.isolation.outside import (
    MARK,
    SECRET_NAME,
    VALUES,
    Outside,
    everything_outside,
    hello_to,
    id_inside,
    inside,
    is_kernel_host,
    owner,
    prepare_other,
)

from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the rows call by this machine's numbers"),
]

HERE = Path(__file__).parent
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (HERE / "probes.jsonl").read_text().splitlines()]
HELPERS = (HERE / "helpers.py").read_text().partition("# ---\n")[2]
BACKENDS = ("bubblewrap", *(pytest.param(engine, marks=needs(engine)) for engine in ("podman", "docker")))
"""Every backend that contains, and what it needs."""
SECRETS = (SecretSpec(name="KEPT"), SecretSpec(name="TYPED"), SecretSpec(name="BOUND", hosts=("bound.example",)))


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Session, Session, Outside]]:
    """Give the attacker, the other sandbox, and what lies outside."""
    given = {SECRET_NAME: MARK, **VALUES}
    os.environ.update(given)
    runs = tmp_path_factory.mktemp("runs")
    try:
        async with (
            Session.open(Spec(backend=backend), runs=runs) as other,
            Session.open(Spec(backend=backend, secrets=SECRETS), secrets=VALUES, runs=runs) as attacker,
        ):
            prepared = await _said(other, prepare_other())
            with everything_outside(tmp_path_factory.mktemp("service"), other, prepared) as outside:
                assert await _said(attacker, f"outside = {outside.facts!r}\n{HELPERS}") == ""
                yield attacker, other, outside
    finally:
        for name in given:
            del os.environ[name]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['kind']}: {row['does']}" for row in ROWS])
async def test_probe(both: tuple[Session, Session, Outside], backend: str, row: dict[str, Any]) -> None:
    """A row that is not of this backend is not collected: see `conftest.py`."""
    attacker, _, outside = both
    code, language = row["code"], row.get("language", "python")
    if language == "python":
        code = f"made = []\n{code}"
    else:
        code = code.replace("PORTS", ", ".join(map(str, outside.facts["ports"])))
    cell = await attacker.execute(code, language=language)
    assert cell.status == "ok", cell.text
    says = row.get("says_of", {}).get(backend, row["says"])
    assert cell.text.rstrip("\n").split("\n") == [line for line in says if line], cell.text
    assert outside.touched() == []


async def test_every_kind_has_its_probes() -> None:
    kinds = {
        "files",
        "processes",
        "settings",
        "devices",
        "calls",
        "namespaces",
        "network",
        "service",
        "others",
        "secrets",
    }
    assert set(Counter(row["kind"] for row in ROWS)) == kinds
    assert len({row["does"] for row in ROWS}) == len(ROWS) >= 60


async def test_what_the_probes_look_for_answers_out_here(both: tuple[Session, Session, Outside]) -> None:
    """A probe that finds nothing says something only where there is something to be found."""
    _, other, outside = both
    facts = outside.facts
    assert hello_to(("127.0.0.1", facts["ports"][0])) == b"here"
    assert [hello_to((host, facts["ports"][1])) for host in ("127.0.0.1", "::1", *facts["addresses"][:1])] == [
        b"here"
    ] * (2 + len(facts["addresses"][:1]))
    assert hello_to("\0" + facts["abstract"][0]) == hello_to(facts["sockets"][0]) == b"here"
    assert outside.missing() == []
    assert await _said(
        other, f"log(os.path.exists('/tmp/other.txt'), libc.shmget({facts['other_key']}, 1, 0) >= 0)"
    ) == ("True True")
    assert outside.touched() == []


async def test_every_process_runs_as_an_unprivileged_uid_outside(both: tuple[Session, Session, Outside]) -> None:
    attacker, other, _ = both
    for session in (attacker, other):
        assert session.info.uid != 0
        assert {owner(pid) for pid in inside(session.info.pid)} == {session.info.uid}
    if os.getuid() == 0:
        assert attacker.info.uid != other.info.uid


async def test_the_first_process_inside_is_the_kernel_host(both: tuple[Session, Session, Outside]) -> None:
    """What nobody inside can end by a signal is what reports and what ends the rest."""
    attacker, _, _ = both
    firsts = [pid for pid in inside(attacker.info.pid) if id_inside(pid) == "1" and is_kernel_host(pid)]
    assert len(firsts) == 1


async def _said(session: Session, code: str) -> str:
    cell = await session.execute(code)
    assert cell.status == "ok", cell.text
    return "" if cell.text == "The cell ran and showed nothing." else cell.text
