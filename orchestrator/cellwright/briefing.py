"""What a model is told of a session before its first turn: the instructions, and the tools.

Flows in: the Spec of the session, the languages, the terms. Flows out: both as they are sent. Decided here: nothing that is not in the
prompts; `cellwright prompt` shows by this what a run sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.model import asking_tool
from cellwright.model.base import Item
from cellwright.model.tools import instructions_for, tools_for
from cellwright.sandbox.base import Spec
from cellwright.terms import Checks, Sending
from cellwright_kernel.wire import Language


@dataclass(frozen=True)
class Briefing:
    """What goes with every request."""

    instructions: str
    tools: tuple[Item, ...]


def briefing(
    spec: Spec, languages: Sequence[Language], sending: Sending, checks: Checks, *, people: bool = False
) -> Briefing:
    """Return what a model is told of a session made from this Spec; `people`: whether somebody can be asked.

    Raises:
        UsageError: A prompt of the user's says what means nothing.
    """
    instructions = instructions_for(
        [path.name for path in spec.files],
        spec.allow,
        browser=spec.browser,
        secrets={secret.name: secret.hosts for secret in spec.secrets},
        params=spec.params,
        languages=languages,
        pictures=sending.pictures is not None,
        people=people,
        result_schema=checks.result_schema,
        prompts=sending.prompts,
    )
    tools = tools_for(
        languages,
        width=spec.width,
        height=spec.height,
        page_height=spec.viewport_height,
        deadline_s=spec.cell_deadline_s,
        limit_s=spec.longest_s,
        browser=spec.browser,
        prompts=sending.prompts,
    )
    return Briefing(instructions, (*tools, asking_tool.TOOL) if people else tools)
