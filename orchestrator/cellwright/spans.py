"""A run as spans of OpenTelemetry, in OTLP's JSON: one for the run, one for each turn, one for each cell.

Flows in: a `Run`, a table of prices. Flows out: the body of a request to a collector's `/v1/traces`. Decided here: that ids follow from the run's
id, so that the same run sent twice is the same trace; and that no word of the task, of code or of what came of it is in them: times,
names, statuses and counts only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue

from cellwright.ledger import TurnTook, ledger_of, requests_of
from cellwright.prices import Prices
from cellwright.record import Run, StoredCell
from cellwright.record.records import ModelFailed, ModelResponse
from cellwright.record.run_info import RunEnd

Attribute = str | int | float | bool | Sequence[str] | None
"""Absent: it is left out."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INTERNAL, _CLIENT = 1, 3
"""Kinds of a span: within a program; a request to another."""
_ERROR: Final = 2
"""Status of a span."""
_TOOLS: Final = {"python": "exec_py", "javascript": "exec_js"}
_WELL: Final[tuple[RunEnd, ...]] = ("done",)


def spans_of(run: Run, prices: Prices) -> dict[str, JsonValue]:
    """Return a run's spans: an `ExportTraceServiceRequest` of OTLP 1."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": "cellwright"})},
                "scopeSpans": [
                    {
                        "scope": {"name": "cellwright", "version": run.info.cellwright},
                        "spans": [*_Trace(run, prices).spans()],
                    }
                ],
            }
        ]
    }


class _Trace:
    def __init__(self, run: Run, prices: Prices) -> None:
        self._run = run
        self._ledger = ledger_of(run, prices)
        self._cells = run.stored_cells
        self._root = self._id("run")

    def spans(self) -> list[JsonValue]:
        run, ledger = self._run, self._ledger
        began = _ns(run.info.created_at, 0)
        ended = max([began, *(_ns(record.at, began) for record in run.records[-1:])])
        name = run.info.model
        spans: list[JsonValue] = [
            self._span(
                self._root,
                None,
                "invoke_agent cellwright" if name else "cellwright",
                (began, ended),
                {
                    "gen_ai.operation.name": "invoke_agent" if name else None,
                    "gen_ai.agent.name": "cellwright" if name else None,
                    "gen_ai.conversation.id": run.info.run_id,
                    "gen_ai.request.model": name,
                    "gen_ai.usage.input_tokens": ledger.total.input_tokens if name else None,
                    "gen_ai.usage.output_tokens": ledger.total.output_tokens if name else None,
                    "cellwright.driver": run.info.driver,
                    "cellwright.status": run.status,
                    "cellwright.cost_usd": ledger.total.cost if ledger.turns else None,
                    "error.type": None if run.status in (*_WELL, "running") else run.status,
                },
            )
        ]
        spans.extend(self._of_turns())
        called = {cell.number for turn in ledger.turns for cell in turn.cells}
        spans.extend(self._of_cell(cell, self._root) for cell in self._cells if cell.opened.number not in called)
        return spans

    def _of_turns(self) -> list[JsonValue]:
        spans: list[JsonValue] = []
        cells = {cell.opened.number: cell for cell in self._cells}
        requests = requests_of(self._run.records)
        for (place, asked, came, _), took in zip(requests, self._ledger.turns, strict=True):
            began = _ns(asked.at, 0)
            ended = max(began, _ns(came.at, began)) if came else began
            span_id = self._id(f"request {place}")
            within = [self._of_cell(cells[cell.number], span_id) for cell in took.cells]
            ends = [int(str(one["endTimeUnixNano"])) for one in within]
            spans.append(
                self._span(
                    span_id, self._root, f"chat {asked.model}", (began, max([ended, *ends])), _of_request(took, came)
                )
            )
            spans.extend(within)
        return spans

    def _of_cell(self, cell: StoredCell, parent: str) -> dict[str, JsonValue]:
        opened, closed = cell.opened, cell.closed
        began = _ns(opened.started_at, _ns(opened.at, 0))
        ended = began + (closed.duration_ms * 1_000_000 if closed else 0)
        tool = _TOOLS.get(opened.language, opened.language)
        status = closed.status if closed else "open"
        return self._span(
            self._id(f"cell {opened.number}"),
            parent,
            f"execute_tool {tool}",
            (began, ended),
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": opened.call_id,
                "gen_ai.conversation.id": self._run.info.run_id,
                "cellwright.cell": opened.number,
                "cellwright.status": status,
                "error.type": None if status == "ok" else status,
            },
        )

    def _span(
        self,
        span_id: str,
        parent: str | None,
        name: str,
        times: tuple[int, int],
        attributes: Mapping[str, Attribute],
    ) -> dict[str, JsonValue]:
        failed = attributes.get("error.type") is not None
        return {
            "traceId": _hash(f"trace {self._run.info.run_id}", 32),
            "spanId": span_id,
            **({"parentSpanId": parent} if parent else {}),
            "name": name,
            "kind": _CLIENT if attributes.get("gen_ai.operation.name") == "chat" else _INTERNAL,
            "startTimeUnixNano": str(times[0]),
            "endTimeUnixNano": str(times[1]),
            "attributes": _attributes(attributes),
            "status": {"code": _ERROR} if failed else {},
        }

    def _id(self, what: str) -> str:
        return _hash(f"{self._run.info.run_id} {what}", 16)


def _of_request(took: TurnTook, came: ModelResponse | ModelFailed | None) -> dict[str, Attribute]:
    response = came.response if isinstance(came, ModelResponse) else None
    body = response if isinstance(response, dict) else {}
    response_id, model, status = body.get("id"), body.get("model"), body.get("status")
    error = None if isinstance(came, ModelResponse) else "no_response"
    if isinstance(came, ModelFailed) and came.http_status is not None:
        error = str(came.http_status)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": took.model,
        "gen_ai.response.id": response_id if isinstance(response_id, str) else None,
        "gen_ai.response.model": model if isinstance(model, str) else None,
        "gen_ai.response.finish_reasons": [status] if isinstance(status, str) else None,
        "gen_ai.usage.input_tokens": took.input_tokens,
        "gen_ai.usage.output_tokens": took.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": took.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": took.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": took.reasoning_tokens,
        "cellwright.turn": took.turn,
        "cellwright.model_ms": took.model_ms,
        "cellwright.waited_ms": took.waited_ms,
        "cellwright.person_ms": took.person_ms,
        "cellwright.image_patches": took.image_patches,
        "cellwright.cost_usd": took.cost,
        "cellwright.is_shared": took.is_shared or None,
        "error.type": error,
    }


def _attributes(attributes: Mapping[str, Attribute]) -> list[JsonValue]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items() if value is not None]


def _value(value: str | float | Sequence[str]) -> JsonValue:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}  # as protobuf has 64 bits in JSON
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}


def _ns(moment: str, otherwise: int) -> int:
    """Return a moment of a record in nanoseconds; a run of somebody else's may hold what is none."""
    try:
        return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(milliseconds=1) * 1_000_000
    except (ValueError, TypeError):  # TypeError: it has no zone
        return otherwise


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:digits]
