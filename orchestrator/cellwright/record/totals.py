"""What a run came to: counts over its records.

Flows in: a `Run`. Flows out: `Totals`, and the words that stand in a model's response. Decided here: how tokens and
messages are read from a response that somebody else made: what is not as expected counts as nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pydantic import JsonValue

from cellwright.record.reader import Run
from cellwright.record.records import CellClosed, CellOpened, Egress, EgressMore, ModelResponse
from cellwright.record.stored import Recorded


class Totals(Recorded):
    """Counts over a run."""

    turns: int
    """Responses of the model."""
    cells: int
    """Cells that were opened."""
    cells_by_status: dict[str, int]
    """Status -> cells; cells without a recorded end are not in it."""
    cells_ms: int
    """Time in cells, measured outside."""
    input_tokens: int
    """As the model's server said; of them cached ones included."""
    output_tokens: int
    egress_allowed: int
    """Requests that the allow-list let through."""
    egress_refused: int
    """Requests that it did not."""


def totals_of(run: Run) -> Totals:
    """Count a run's records."""
    responses = [record for record in run.records if isinstance(record, ModelResponse)]
    closed = [record for record in run.records if isinstance(record, CellClosed)]
    egress = Counter(record.allowed for record in run.records if isinstance(record, Egress))
    for record in run.records:
        if isinstance(record, EgressMore):
            egress.update({True: record.allowed, False: record.refused})
    return Totals(
        turns=len(responses),
        cells=sum(isinstance(record, CellOpened) for record in run.records),
        cells_by_status=dict(Counter(record.status for record in closed)),
        cells_ms=sum(record.duration_ms for record in closed),
        input_tokens=sum(_tokens(record.response, "input_tokens") for record in responses),
        output_tokens=sum(_tokens(record.response, "output_tokens") for record in responses),
        egress_allowed=egress[True],
        egress_refused=egress[False],
    )


def messages_of(response: JsonValue) -> Iterator[tuple[str, str]]:
    """Yield (phase, text) of each message in a model's response; the phase is `refusal` for a refusal, else as sent."""
    output = response.get("output") if isinstance(response, dict) else None
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, dict) or item.get("type") != "message":
            continue
        phase, content = item.get("phase"), item.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and isinstance(text := part.get("text"), str):
                yield phase if isinstance(phase, str) else "message", text
            elif isinstance(part, dict) and isinstance(text := part.get("refusal"), str):
                yield "refusal", text


def _tokens(response: JsonValue, name: str) -> int:
    usage = response.get("usage") if isinstance(response, dict) else None
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) else 0
