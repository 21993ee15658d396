"""The files of prompts, and what of them applies.

Flows in: a file's text, what is so in a run, the values that it names. Flows out: what is sent. Decided here: what a file may say
(`<!-- if WORDS -->`, `<!-- end -->`, `{value}`), that whatever else it says in these ways is an error before anything starts,
and that a value is put in as it is, never read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from cellwright.errors import UsageError

SYSTEM: Final = "system.md"
TOOLS: Final = ("exec_py.md", "exec_js.md")
NAMES: Final = (SYSTEM, *TOOLS)
"""The files there are."""

_LANGUAGES: Final = frozenset({"python", "javascript"})
_FACTS: Final[Mapping[str, frozenset[str]]] = {
    SYSTEM: _LANGUAGES | {"browser", "files", "network", "secrets", "params", "result", "pictures", "people"},
    **dict.fromkeys(TOOLS, _LANGUAGES | {"browser"}),
}
_VALUES: Final[Mapping[str, frozenset[str]]] = {
    SYSTEM: frozenset({"files", "allow", "secrets", "params", "example", "schema"}),
    **dict.fromkeys(TOOLS, frozenset({"width", "height", "page_height", "deadline_s", "limit_s"})),
}
_FILE_BYTES: Final = 256 * 1024

_MARK: Final = re.compile(r"<!--(.*?)-->", re.DOTALL)
_VALUE: Final = re.compile(r"\{\{(\w+)\}\}|\{([a-z_]+)\}")


def read_prompts(folder: Path) -> dict[str, str]:
    """Return the files of a folder that take the place of ours, by name.

    Raises:
        UsageError: There are none, or one cannot be read or says what means nothing. Nothing was started.
    """
    found = {name: _read(folder / name) for name in NAMES if (folder / name).is_file()}
    if not found:
        raise UsageError(
            f"There is no file of prompts in {folder}. Nothing was started. Name a folder with {', '.join(NAMES)}, or some of "
            "them: `cellwright prompt` shows what is sent."
        )
    check_prompts(found)
    return found


def check_prompts(files: Mapping[str, str]) -> None:
    """Raise UsageError where a file says what means nothing, whether or not that would be sent."""
    for name, text in files.items():
        if name not in _FACTS:
            raise UsageError(f"There is no prompt {name!r}. Nothing was started. There are: {_listed(NAMES)}.")
        filled(text, name, facts=_FACTS[name], values=dict.fromkeys(_VALUES[name], ""))


def prompt(name: str, given: Mapping[str, str], *, facts: Collection[str], values: Mapping[str, object]) -> str:
    """Return what is sent of a file.

    Args:
        name: One of `NAMES`.
        given: Texts that take the place of ours, by name.
        facts: What is so: the languages that are offered, `browser`, `files`, ...
        values: What stands for each `{name}`.

    Raises:
        UsageError: It says what means nothing.
    """
    return filled(given[name] if name in given else _ours(name), name, facts=facts, values=values)


def filled(text: str, name: str, *, facts: Collection[str], values: Mapping[str, object]) -> str:
    """Return what applies of a text of this name, with its values."""
    known = _VALUES[name]
    for match in _VALUE.finditer(text):
        if match[2] is not None and match[2] not in known:
            said = f"There are: {_listed(known)}. {{{match[0]}}} stands for the word in braces itself"
            raise UsageError(_wrong(name, f"names a value {match[0]}", said))
    applying = _applying(text, name, frozenset(facts))
    lines = "\n".join(line.rstrip(" \t") for line in applying.split("\n"))
    laid_out = re.sub(r"\n{3,}", "\n\n", lines).strip()
    return _VALUE.sub(lambda match: f"{{{match[1]}}}" if match[1] else str(values.get(match[2], "")), laid_out)


def _applying(text: str, name: str, facts: frozenset[str]) -> str:
    """Return the text without its marks and without what stands between marks that do not hold."""
    holds, kept, place = [True], list[str](), 0
    for mark in _MARK.finditer(text, 0, text.rfind("-->") + 3):  # behind the last end no mark is looked for
        begin, end = _place_of(mark)
        if all(holds):
            kept.append(text[place:begin])
        place = end
        words = mark[1].split()
        if words == ["end"]:
            if len(holds) == 1:
                raise UsageError(_wrong(name, "has an `end` without an `if`", "Each `if` has one"))
            holds.pop()
        elif words[:1] == ["if"]:
            holds.append(_holds(words[1:], name, facts))
    if len(holds) > 1:
        raise UsageError(_wrong(name, "has an `if` without an `end`", "Each `if` has one"))
    return "".join([*kept, text[place:]])


def _place_of(mark: re.Match[str]) -> tuple[int, int]:
    """Return where a mark begins and ends; one that has its line for itself takes the line with it."""
    text, begin, end = mark.string, mark.start(), mark.end()
    line, newline = text.rfind("\n", 0, begin) + 1, text.find("\n", end)
    is_alone = newline >= 0 and not text[line:begin].strip(" \t") and not text[end:newline].strip(" \t")
    return (line, newline + 1) if is_alone else (begin, end)


def _holds(words: list[str], name: str, facts: frozenset[str]) -> bool:
    """Whether all of the words hold; `not` turns the next one round."""
    wanted = True
    holds = bool(words)
    for word in words:
        if word == "not":
            wanted = False
            continue
        if word not in _FACTS[name]:
            raise UsageError(_wrong(name, f"asks whether {word!r}", f"There are: {_listed(_FACTS[name])}"))
        holds, wanted = holds and (word in facts) is wanted, True
    return holds


def _wrong(name: str, what: str, instead: str) -> str:
    return f"The prompt {name} {what}, which means nothing. Nothing was started. {instead}; see docs/prompts.md."


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
        if len(data) > _FILE_BYTES:
            raise UsageError(f"The prompt {path} has {len(data)} bytes; {_FILE_BYTES} are taken. Nothing was started.")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The prompt {path} cannot be read: {error}. Nothing was started.") from error


@cache
def _ours(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
