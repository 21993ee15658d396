"""A script for a model that isn't there: what it says and calls, turn by turn.

Flows in: a file, in either of its two forms. Flows out: a `Script` of turns. Decided here: what a turn may say; how it is written is in
`markdown.py`, which reads like a conversation, and in `yaml_script.py`, which can say everything.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellwright.counted import counted
from cellwright.emulator.faults import PlannedFault
from cellwright.errors import FileMissing, UsageError
from cellwright.model.base import Item, Phase

FORMS: Final = {".yaml": "yaml", ".yml": "yaml"}
"""A file's suffix, and how it is written; any other: like a conversation."""
_MAX_BYTES: Final = 16 << 20
"""Of a script; pictures may stand in it."""


@dataclass(frozen=True)
class ScriptedCall:
    """One call that the scripted model makes."""

    name: str
    arguments: str
    """JSON, or what a script wants to pass for it; of a custom tool: its input."""
    is_custom: bool = False
    call_id: str | None = None
    """Absent: one is made up, as it should be."""


@dataclass(frozen=True)
class ScriptedUsage:
    """Tokens that a response says it took; what is absent is estimated."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True)
class ScriptedTurn:
    """One response of the scripted model."""

    text: str = ""
    """Its message; empty: none."""
    calls: tuple[ScriptedCall, ...] = ()
    phase: Phase | None = None
    refusal: str | None = None
    reasoning: str = ""
    """Summary of its reasoning."""
    output: tuple[Item, ...] | None = None
    """Its items in exactly this order, as the API has them, instead of what stands above; ids are added where none are."""
    recorded: Item | None = None
    """The whole response as a server gave it once; nothing is added."""
    usage: ScriptedUsage = ScriptedUsage()
    status: str = "completed"
    reason: str | None = None
    """Why it isn't completed: an incomplete reason, or an error code."""
    expects: tuple[str, ...] = ()
    expects_not: tuple[str, ...] = ()
    expects_image: bool = False
    http_status: int | None = None
    """Status with which requests for it are refused at first; absent: none is."""
    http_times: int = 1
    wait_s: float = 0.0
    """Until it begins."""
    pace_s: float = 0.0
    """Between two events of its stream."""
    breaks: bool = False
    wrap_up: bool = False
    faults: tuple[PlannedFault, ...] = ()
    """What goes wrong before it, one after the other."""


WRAP_UP: Final = ScriptedTurn(text="The budget is spent.", phase="final_answer")
"""What answers the request that allows no more calls, where a script says nothing of it."""


@dataclass(frozen=True)
class Script:
    """What a scripted model does, from the first turn to the last."""

    turns: tuple[ScriptedTurn, ...]
    """Those of a conversation, in order."""
    wrap_up: ScriptedTurn = WRAP_UP
    """The answer to the request that allows no more calls."""
    name: str = "script"
    """For messages: the file it came from."""

    @classmethod
    def of(cls, turns: Iterable[ScriptedTurn], name: str) -> Script:
        """Return a script of these turns; the one that wraps up may stand among them.

        Raises:
            UsageError: There is no other.
        """
        listed = tuple(turns)
        played = tuple(turn for turn in listed if not turn.wrap_up)
        if not played:
            raise UsageError(f"{name} has no turn. Nothing was started. Write a message or a ```python block in it.")
        return cls(played, next((turn for turn in listed if turn.wrap_up), WRAP_UP), name)

    @classmethod
    def parse(cls, text: str, *, name: str = "script", form: str = "markdown") -> Script:
        """Read a script; `form` is `markdown` or `yaml`.

        Raises:
            UsageError: It is not written as it must be; says where.
        """
        from cellwright.emulator import markdown, yaml_script  # noqa: PLC0415 - they make what is defined here

        return yaml_script.parse(text, name) if form == "yaml" else markdown.parse(text, name)

    @classmethod
    def read(cls, path: Path) -> Script:
        """Read a script from a file; one that ends in `.yaml` or `.yml` is YAML.

        Raises:
            FileMissing: It cannot be read.
            UsageError: It is not written as it must be.
        """
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise UsageError(f"The script {path} has more than {_MAX_BYTES >> 20} MiB. Nothing was started.")
            text = data.decode("utf-8").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise FileMissing(f"The script {path} cannot be read: {error}. Nothing was started.") from error
        return cls.parse(text, name=str(path), form=FORMS.get(path.suffix.lower(), "markdown"))

    def with_faults(self, planned: Iterable[PlannedFault]) -> Script:
        """Return the same script in which more goes wrong.

        Raises:
            UsageError: It has no such turn.
        """
        turns = list(self.turns)
        for plan in planned:
            if plan.turn is not None and not 1 <= plan.turn <= len(turns):
                raise UsageError(
                    f"{plan.name}@{plan.turn}: {self.name} has {counted(len(turns), 'turn')}. Nothing was started."
                )
            for index in range(len(turns)) if plan.turn is None else [plan.turn - 1]:
                turns[index] = dataclasses.replace(turns[index], faults=(*turns[index].faults, plan))
        return dataclasses.replace(self, turns=tuple(turns))

    @functools.cached_property
    def places(self) -> Mapping[str, int]:
        """The turn of each id that the script itself gives, of items and calls, so that a history tells how far it has come."""
        found = dict[str, int]()
        for number, turn in enumerate(self.turns, 1):
            for item in (
                *(turn.output or ()),
                *_items_of(turn.recorded),
                *({"call_id": one.call_id} for one in turn.calls),
            ):
                for name in ("id", "call_id"):
                    word = item.get(name)
                    if isinstance(word, str) and word:
                        found.setdefault(word, number)  # an id that is there twice is of the first
        return found


def _items_of(recorded: Item | None) -> list[Item]:
    output = recorded.get("output") if recorded is not None else None
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
