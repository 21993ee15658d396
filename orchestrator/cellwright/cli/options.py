"""What a sandbox may have, said the same way by every command: `run`, `exec`, `serve`.

Flows in: the words after `--allow`, `--file`, `--out`, `--env`, `--sandbox`, `--size`, `--deadline`. Flows out: a `Spec`.
Decided here: how each word is written, and the sentence for one that is not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from cellwright.errors import UsageError
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Language

Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="HOST[:PORT]", help="Let the sandbox reach this host; may be repeated. Default: no network."
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="PATH", help="Copy this file or folder into the sandbox's home; may be repeated."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="At close, copy new and changed files of the sandbox's home into this folder."
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="Set a variable in the kernels' environment; NAME alone takes the caller's value. May be repeated.",
    ),
]
SandboxName = Annotated[
    str,
    typer.Option("--sandbox", metavar="BACKEND", help="What isolates: `bubblewrap`; `none` is for development only."),
]
Size = Annotated[str, typer.Option("--size", metavar="WxH", help="Pixels of the desktop.")]
Deadline = Annotated[float, typer.Option("--deadline", metavar="SECONDS", help="Seconds until a cell is interrupted.")]

Languages = Annotated[
    str, typer.Option("--lang", metavar="py,js", help="What the model may write: `py`, `js` or both.")
]

DEFAULT_SANDBOX = Spec().backend
DEFAULT_SIZE = f"{Spec().width}x{Spec().height}"
DEFAULT_DEADLINE_S = Spec().cell_deadline_s

DEFAULT_LANGUAGES = "py,js"

_LANGUAGES: dict[str, Language] = {"py": "python", "python": "python", "js": "javascript", "javascript": "javascript"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def spec_from(
    *,
    allow: Sequence[str] | None = None,
    files: Sequence[Path] | None = None,
    out: Path | None = None,
    env: Sequence[str] | None = None,
    sandbox: str = DEFAULT_SANDBOX,
    size: str = DEFAULT_SIZE,
    deadline_s: float = DEFAULT_DEADLINE_S,
) -> Spec:
    """Return the Spec that the options of a command line say.

    Raises:
        UsageError: An option is not written as it must be, or names a file that is not there.
    """
    width, height = _size(size)
    _refuse_half_characters(*(allow or ()), *map(str, files or ()), str(out), *(env or ()))
    try:
        return Spec(
            backend=sandbox,
            width=width,
            height=height,
            allow=tuple(allow or ()),
            files=tuple(_existing(path) for path in files or ()),
            out=_folder(out),
            env=dict(_variable(word) for word in env or ()),
            cell_deadline_s=deadline_s,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name}: {first['msg']} (given: {first['input']!r}). Nothing was started.") from error


def languages_from(words: str) -> tuple[Language, ...]:
    """Return the languages that a list such as `py,js` names.

    Raises:
        UsageError: One of them is none.
    """
    return tuple(dict.fromkeys(language_from(word.strip()) for word in words.split(",")))


def language_from(word: str) -> Language:
    """Return the language that `py` or `js` names.

    Raises:
        UsageError: It names none.
    """
    if word not in _LANGUAGES:
        raise UsageError(f"There is no language {word!r}. Nothing was started. Use `py` or `js`.")
    return _LANGUAGES[word]


def _size(word: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})[xX×](\d{1,5})", word)
    if match is None:
        raise UsageError(f"--size {word!r} is not WIDTHxHEIGHT. Nothing was started. Write it like 1440x1000.")
    return int(match[1]), int(match[2])


def _refuse_half_characters(*words: str) -> None:
    """Refuse what is not UTF-8 on the command line: the run could not record it, nor the sandbox be told."""
    for word in words:
        if not word.isascii() and word.encode("utf-8", "replace").decode() != word:
            raise UsageError(f"{word!r} is not UTF-8. Nothing was started. Rename it, or write it otherwise.")


def _existing(path: Path) -> Path:
    try:
        path.stat()
    except PermissionError as error:
        raise UsageError(
            f"--file {path}: it cannot be read: {error.strerror}. Nothing was started. Name another file."
        ) from error
    except OSError:
        raise UsageError(
            f"--file {path}: there is no such file or folder. Nothing was started. Check the path."
        ) from None
    return path.absolute()


def _folder(out: Path | None) -> Path | None:
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file; it must be a folder. Nothing was started. Name another one.")
    if out is None:
        return None
    try:
        out.mkdir(parents=True, exist_ok=True)  # now, and not when the work of the run is to be kept
    except OSError as error:
        raise UsageError(
            f"--out {out} cannot be made: {error.strerror}. Nothing was started. Name another one."
        ) from error
    return out.absolute()


def _variable(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not _NAME.fullmatch(name):
        raise UsageError(f"--env {name!r} is not the name of a variable. Nothing was started. Write NAME=VALUE.")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {name}: this variable is not set here. Nothing was started. Write {name}=VALUE.")
    return name, os.environ[name]
