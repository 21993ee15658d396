"""What a cell says of the way out at its end."""

from cellwright_kernel.deadline import SystemClock
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.running_cell import RunningCell
from cellwright_kernel.wire import Execute


async def test_refusals_are_told_once_each_and_at_most_three():
    cell = RunningCell(Execute(number=1, language="python", code="", deadline_s=9), Outputs(), SystemClock())
    for host in "abacadabra":
        cell.refused(f"{host} was refused.")
    cell.close("ok", 1)
    events = [event for batch in [batch async for batch in cell.events()] for event in batch]
    said = [event.output.text for event in events if event.type == "output"]
    assert said == ["a was refused.", "b was refused.", "c was refused."]
