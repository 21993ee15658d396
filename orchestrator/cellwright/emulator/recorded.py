"""A run's model side, as a script: what a server once answered is answered again.

Flows in: a run. Flows out: a `Script` whose turns are the recorded responses, whole and with their own ids. Decided here: that nothing is
played of a record that is not as it was written; and that a client need only answer the same calls: what it answers is its own.
"""

from __future__ import annotations

from cellwright.emulator.script import WRAP_UP, Script, ScriptedTurn
from cellwright.errors import UsageError
from cellwright.model.base import Item
from cellwright.record import Run
from cellwright.record.records import ModelRequest, ModelResponse


def script_of(run: Run) -> Script:
    """Return the model's side of a run.

    Raises:
        JournalCorrupt: The record is not as it was written.
        UsageError: No model's response is in it, or one that is none of the API's.
    """
    run.must_be_whole()
    turns, wrap_up, sums_up = list[ScriptedTurn](), WRAP_UP, False
    for record in run.records:
        match record:
            case ModelRequest(parameters=parameters):
                sums_up = parameters.get("tool_choice") == "none"
            case ModelResponse() if sums_up:
                wrap_up = ScriptedTurn(recorded=_answered(record, run.info.run_id), wrap_up=True)
            case ModelResponse():
                turns.append(ScriptedTurn(recorded=_answered(record, run.info.run_id)))
            case _:
                pass
    if not turns:
        raise UsageError(
            f"The run {run.info.run_id} has no response of a model. Usually its cells came from elsewhere. Nothing was started. "
            "Give a run that a model drove, or a script."
        )
    return Script(tuple(turns), wrap_up, f"run {run.info.run_id}")


def _answered(record: ModelResponse, run_id: str) -> Item:
    response = record.response
    if not isinstance(response, dict) or not isinstance(response.get("output"), list) or "status" not in response:
        raise UsageError(
            f"Response {record.turn} of the run {run_id} is not one of the Responses API, so no server can give it again. "
            "Usually a model in the caller's own program gave it. Nothing was started."
        )
    return {"id": f"resp_recorded_{record.turn}", **response}
