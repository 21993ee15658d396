"""Ten thousand requests that are made up from the gateway's own description, good ones and bad: no 5xx, no answer but a described one.

Flows in: how many. Flows out: how many of each status there were, and the request that shows each kind of fault. Decided
here: that they go to a real service with real sandboxes, without a browser unless a request asks for one, four at once, so
that a session is closed and a kernel restarted while others are at work in it; that most of those which name a session name one that is open, and many a file that is there; what takes long is asked less often; and that of the
checks those count that compare an answer with the description. What must be refused is other tests' matter.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import hypothesis
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from tests.serving import Service, running_service

REQUESTS: Final = 10_000
ANSWER_S: Final = 60
AT_ONCE: Final = 4
MINE: Final = "mine"
FILE: Final = "made-up.txt"
THERE: Final = {"path": FILE, "number": 1}
NDJSON: Final = {"Accept": "application/x-ndjson"}
SELDOM: Final = {
    ("POST", "/v1/sessions"): 2,
    ("DELETE", "/v1/sessions/{session_id}"): 1,
    ("POST", "/v1/sessions/{session_id}/restart"): 1,
}
"""Parts of a sixth that these have; they start and end processes, which takes a second."""
USUAL: Final = 6
CHECKS: Final = (
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
)


@dataclass
class Asked:
    """What came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    routes: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By route and status."""
    faults: dict[str, str] = field(default_factory=dict)
    """By route and kind: the first request that shows it, and its answer."""
    took_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> int:
        """How many were answered."""
        return self.statuses.total()

    @property
    def server_errors(self) -> int:
        """How many of them with 5xx."""
        return sum(count for status, count in self.statuses.items() if status >= 500)


def made_up_requests(count: int, state: Path, *, seed: int | None = None) -> Asked:
    """Have a service of its own answer so many requests.

    Args:
        count: How many.
        state: Folder for the service's runs and token.
        seed: Same seed, same requests, as far as answers do not steer them; None: others each time.
    """
    with running_service(state, "--no-browser", "--max-sessions", "3", "--deadline", "3", "--idle", "30") as service:
        return _Asking(service).ask(count, seed)


class _Asking:
    """One service's clients."""

    def __init__(self, service: Service) -> None:
        load_all_checks()
        self._service = service
        self._headers: Final = {"Authorization": f"Bearer {service.token}"}
        self._own = threading.local()
        self._asked = Asked()

    def ask(self, count: int, seed: int | None) -> Asked:
        """Make up so many requests here, and have `AT_ONCE` threads send them."""
        self._open_mine()
        schema = schemathesis.openapi.from_url(f"{self._service.url}/openapi.json", headers=self._headers)
        strategies = [strategy for result in schema.get_all_operations() for strategy in _cases(result.ok())]
        begun: list[Future[None]] = []

        @hypothesis.settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(st.one_of(strategies), st.booleans(), st.integers(0, 19))
        def one(case: Case, streams: bool, kind: int) -> None:
            if len(begun) == count:
                return
            if kind < 15 and isinstance(case.body, dict) and isinstance(case.body.get("session_id"), str):
                case.body = {**case.body, "session_id": MINE}
            headers = NDJSON if streams and case.operation.path.endswith("/cells") else {}
            begun.append(threads.submit(self._one, case, headers, is_stranger=kind == 13))  # few: all refused alike
            if len(begun) > 2 * AT_ONCE:
                begun[-2 * AT_ONCE].result()

        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            while len(begun) < count:
                (one if seed is None else hypothesis.seed(seed)(one))()
                seed = None if seed is None else seed + 1
            for sent in begun:
                sent.result()
        self._asked.took_s = time.monotonic() - began
        return self._asked

    def _one(self, case: Case, headers: Mapping[str, str], *, is_stranger: bool) -> None:
        route = f"{case.method.upper()} {case.operation.path}"
        self._own.is_stranger = is_stranger
        response = case.call(session=self._connection(), headers=dict(headers), timeout=ANSWER_S)
        faults = _faults(case, response)
        with self._asked.lock:
            self._asked.statuses[response.status_code] += 1
            self._asked.routes[route, response.status_code] += 1
            for kind, said in faults:
                self._asked.faults.setdefault(f"{route}: {kind} {response.status_code}", said)
        if route == "DELETE /v1/sessions/{session_id}" and response.status_code == 204:
            self._open_mine()

    def _connection(self) -> requests.Session:
        """Return this thread's own."""
        if not hasattr(self._own, "connection"):
            self._own.connection = connection = requests.Session()
            connection.trust_env = False
            connection.auth = self._authorised  # last of all: a header that is missing on purpose would stay so
        made: requests.Session = self._own.connection
        return made

    def _authorised(self, prepared: requests.PreparedRequest) -> requests.PreparedRequest:
        if not self._own.is_stranger:
            prepared.headers.update(self._headers)
        return prepared

    def _open_mine(self) -> None:
        """Open the session that most requests name, and put the file there, which do not count; others may close it meanwhile."""
        session = f"{self._service.url}/v1/sessions"
        self._own.is_stranger = False
        end = time.monotonic() + ANSWER_S
        while (opened := self._connection().post(session, json={"session_id": MINE})).status_code >= 400:
            assert opened.status_code in {409, 410, 429}, opened.text
            assert time.monotonic() < end, opened.text
        put = self._connection().put(f"{session}/{MINE}/files/{FILE}", data=b"made up")
        assert put.status_code in {204, 404, 410}, put.text


def _faults(case: Case, response: schemathesis.Response) -> list[tuple[str, str]]:
    try:
        case.validate_response(response, checks=list(CHECKS))
    except FailureGroup as group:
        return [(type(failure).__name__, str(group)) for failure in group.exceptions]
    return []


def _cases(operation: Any) -> list[st.SearchStrategy[Case]]:
    """Return strategies of one route's requests, as many as it has parts in all."""
    named = {"session_id": MINE} if "{session_id}" in operation.path else {}
    there = {**named, **{name: value for name, value in THERE.items() if f"{{{name}}}" in operation.path}}
    good, bad = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
    kinds = [
        operation.as_strategy(good, path_parameters=there),
        operation.as_strategy(bad, path_parameters=there),
        operation.as_strategy(good, path_parameters=named),
        operation.as_strategy(good, path_parameters=there),
        operation.as_strategy(bad),
        operation.as_strategy(good),
    ]
    return kinds[: SELDOM.get((operation.method.upper(), operation.path), USUAL)]
