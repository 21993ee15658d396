"""The tools that a model is offered, the words it is instructed with, and the check of a call before anything runs.

Flows in: the languages of a session, and what is there; a `Call`. Flows out: tool schemas and instructions; the code to execute, or
the sentence that says why not. Decided here: which values the prompts get (their words stand in `prompts/`), and what a call must be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from cellwright.model.base import Call, Item
from cellwright.prompts.templates import SYSTEM, prompt
from cellwright_kernel.wire import CODE_BYTES, Language

_LANGUAGES: Final[dict[str, Language]] = {"exec_py": "python", "exec_js": "javascript"}

WRAP_UP_NOW: Final = """\
The budget of this task is spent ({what}); no further call will be executed. Write a short summary now: what is done, what \
you saw that proves it, what is left, and what you would do next."""
"""What a model is told when its budget is spent: `{what}` of it."""


@dataclass(frozen=True)
class Accepted:
    """A call that may be executed."""

    call: Call
    language: Language
    code: str
    type: Literal["accepted"] = "accepted"


@dataclass(frozen=True)
class Rejected:
    """A call that can't be executed."""

    call: Call
    reason: str
    """A sentence to the model."""
    type: Literal["rejected"] = "rejected"


def instructions_for(
    files: Sequence[str],
    allow: Sequence[str],
    *,
    browser: bool = True,
    secrets: Mapping[str, Sequence[str]] | None = None,
    params: Mapping[str, str] | None = None,
    languages: Sequence[Language] = ("python", "javascript"),
    pictures: bool = False,
    people: bool = False,
    result_schema: JsonValue = None,
    prompts: Mapping[str, str] | None = None,
) -> str:
    """Return the instructions for a session: what is there, how to work, when it is done.

    Args:
        files: Names of what was copied into the sandbox's home.
        allow: Entries of the egress allow-list.
        browser: Whether Chromium is there.
        secrets: Names of the session's secrets, and the hosts that each is bound to.
        params: Parameters of the run, with their values.
        languages: What the model may write.
        pictures: Whether old pictures are left out.
        people: Whether somebody can be asked, by the tool `ask_user` and the helper of that name.
        result_schema: JSON schema that the final answer must satisfy; absent: it is free.
        prompts: Texts that take the place of ours, by the name of their file.
    """
    has = {"browser": browser, "files": files, "network": allow, "secrets": secrets, "params": params}
    has |= {"pictures": pictures, "people": people, "result": result_schema is not None}
    values = {
        "files": ", ".join(files),
        "allow": ", ".join(allow),
        "secrets": ", ".join(_with_hosts(name, hosts) for name, hosts in (secrets or {}).items()),
        "params": _as_json(params or {}),
        "example": next(iter(params or ()), ""),
        "schema": json.dumps(result_schema, ensure_ascii=False),
    }
    facts = {*languages, *(name for name, is_so in has.items() if is_so)}
    return prompt(SYSTEM, prompts or {}, facts=facts, values=values)


def _as_json(params: Mapping[str, str]) -> str:
    """The values stand as JSON, so that none can look like words of ours."""
    return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in params.items())


def _with_hosts(name: str, hosts: Sequence[str]) -> str:
    return f"{name} (for {', '.join(hosts)})" if hosts else name


def tools_for(
    languages: Sequence[Language],
    *,
    width: int,
    height: int,
    page_height: int,
    deadline_s: float = 120.0,
    limit_s: float = 3600.0,
    browser: bool = True,
    prompts: Mapping[str, str] | None = None,
) -> tuple[Item, ...]:
    """Return the schemas of the tools.

    Args:
        languages: What the model may write.
        width: Pixels across of desktop and page.
        height: Pixels down of the desktop.
        page_height: Pixels down of the page.
        deadline_s: Seconds after which a cell is interrupted, unless it asks for more.
        limit_s: Most that it may ask for.
        browser: Whether Chromium is there.
        prompts: Texts that take the place of ours, by the name of their file.
    """
    numbers = {
        "width": width,
        "height": height,
        "page_height": page_height,
        "deadline_s": deadline_s,
        "limit_s": limit_s,
    }
    values = {name: f"{number:g}" for name, number in numbers.items()}
    facts = {*languages, *(["browser"] if browser else [])}
    return tuple(
        _tool(name, prompt(f"{name}.md", prompts or {}, facts=facts, values=values))
        for name, language in _LANGUAGES.items()
        if language in languages
    )


def checked(call: Call, languages: Sequence[Language]) -> Accepted | Rejected:
    """Return what a call asks for; or why it can't be had, in words that let the model make a better one."""
    names = [name for name, language in _LANGUAGES.items() if language in languages]
    language = _LANGUAGES.get(call.name)
    if language is None or call.name not in names:
        return Rejected(
            call, f"There is no tool {call.name[:80]!r}. There is: {', '.join(names)}. Nothing was executed."
        )
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        return Rejected(call, f'The arguments are not JSON ({error}). Nothing was executed. Send {{"code": "..."}}.')
    code = arguments.get("code") if isinstance(arguments, dict) else None
    if not isinstance(code, str):
        return Rejected(call, 'The arguments have no string "code". Nothing was executed. Send {"code": "..."}.')
    if extra := sorted(set(arguments) - {"code"}):
        return Rejected(call, f'The arguments have more than "code": {", ".join(extra)[:200]}. Nothing was executed.')
    size = len(code.encode("utf-8", "replace"))
    if size > CODE_BYTES:
        return Rejected(
            call,
            f"The code has {size} bytes; a call may have {CODE_BYTES}. Nothing was executed. Send it in parts; variables "
            "stay from one call to the next.",
        )
    return Accepted(call, language, code.encode("utf-8", "replace").decode("utf-8"))


def _tool(name: str, description: str) -> Item:
    return {
        "type": "function",
        "name": name,
        "description": description,
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The whole cell."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    }
