"""What a sandbox may have, said the same way by every command: `run`, `exec`, `serve`.

Flows in: the words after `--allow`, `--file`, `--out`, `--env`, `--param`, `--secret`, `--sandbox`, `--image`, `--runtime`, `--size`, `--no-browser`, `--memory` and
its like, `--deadline`. Flows out: a `Spec`.
Decided here: how each word is written, and the sentence for one that is not.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from cellwright.cli.limit_words import limits_from
from cellwright.cli.option_groups import with_options
from cellwright.cli.param_words import params_from
from cellwright.cli.secret_words import secrets_from, values_of
from cellwright.errors import UsageError
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Language

Languages = Annotated[
    str, typer.Option("--lang", metavar="py,js", help="What the model may write: `py`, `js` or both.")
]
DEFAULT_LANGUAGES = "py,js"

_DEFAULT = Spec()
_OPTION_OF = {
    "cell_deadline_s": "--deadline",
    "deadline_limit_s": "--deadline-limit",
    "env": "--env",
    "params": "--param",
    "width": "--size",
    "height": "--size",
    "runtime": "--runtime",
}
_LANGUAGES: dict[str, Language] = {"py": "python", "python": "python", "js": "javascript", "javascript": "javascript"}
_GIVEN_CHARS = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class SpecOptions:
    """The options that make a Spec, as they were given; absent: not given."""

    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="HOST[:PORT]",
            help="Let the sandbox reach this host; may be repeated. Default: no network.",
        ),
    ] = None
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", metavar="PATH", help="Copy this file or folder into the sandbox's home; may be repeated."
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="At close, copy new and changed files of the sandbox's home into this folder."
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="Set a variable in the kernels' environment; NAME alone takes the caller's value. May be repeated.",
        ),
    ] = None
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=VALUE",
            help='A parameter of the run, which cells find as params["NAME"]: `replay --set` gives it another value. The run keeps '
            "the value, so it is no place for a secret. May be repeated.",
        ),
    ] = None
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="NAME[@HOST]",
            help="Let cells use the caller's variable NAME, and never see its value: they type it into the focused field or, "
            "where a host is named, send it there in a header. May be repeated.",
        ),
    ] = None
    sandbox: Annotated[
        str | None,
        typer.Option(
            "--sandbox",
            metavar="BACKEND",
            help=f"What isolates: `{_DEFAULT.backend}`, the default; `podman` or `docker`, from the sandbox image; `none` is for "
            "development only.",
        ),
    ] = None
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="NAME", help=f"What podman and docker use. Default: {_DEFAULT.image}."),
    ] = None
    runtime: Annotated[
        str | None,
        typer.Option(
            "--runtime",
            metavar="NAME",
            help="What podman and docker start the sandbox with, such as `runsc`, gVisor. Default: what they are set up with.",
        ),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            "--size", metavar="WxH", help=f"Pixels of the desktop. Default: {_DEFAULT.width}x{_DEFAULT.height}."
        ),
    ] = None
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Whether Chromium is there. Without it a session takes a quarter of the memory. Default: it is.",
        ),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory of the whole sandbox, such as 2G, as far as it can be held here. "
            f"Default: {_DEFAULT.limits.memory_bytes // 1024**3}G.",
        ),
    ] = None
    disk: Annotated[
        str | None,
        typer.Option(
            "--disk",
            metavar="SIZE",
            help=f"Size of home, of /tmp and of /dev/shm, each; they are in memory. Default: {_DEFAULT.limits.tmp_bytes // 1024**2}M.",
        ),
    ] = None
    cpus: Annotated[
        float | None,
        typer.Option(
            "--cpus",
            metavar="N",
            help="Most processors' worth of time, such as 1.5. Default: all, shared evenly with other sandboxes.",
        ),
    ] = None
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic",
            help="Fix what can be: seeds, hashes, time zone, locale. A replay then finds them the same.",
        ),
    ] = None
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            help=f"Seconds until a cell is interrupted. Default: {_DEFAULT.cell_deadline_s:g}.",
        ),
    ] = None

    deadline_limit: Annotated[
        float | None,
        typer.Option(
            "--deadline-limit",
            metavar="SECONDS",
            help=f"Most seconds that a cell may ask for, by `# timeout_s=N`. Default: {_DEFAULT.deadline_limit_s:g}.",
        ),
    ] = None

    @property
    def shapes_sandbox(self) -> bool:
        """True when more was given than a deadline, which each cell may have of its own."""
        return replace(self, deadline=None) != SpecOptions()

    def spec(self) -> Spec:
        """Return the Spec that they say.

        Raises:
            UsageError: An option is not written as it must be, or names a file that is not there.
        """
        _refuse_half_characters(
            *(self.allow or ()),
            *map(str, self.files or ()),
            str(self.out),
            *(self.env or ()),
            *(self.params or ()),
            *(self.secrets or ()),
        )
        said: dict[str, Any] = {
            "backend": self.sandbox,
            "image": self.image,
            "runtime": self.runtime,
            "allow": self.allow and tuple(self.allow),
            "files": self.files and tuple(existing_file(path) for path in self.files),
            "out": _folder(self.out),
            "env": self.env and dict(variable(word) for word in self.env),
            "params": self.params and params_from(self.params, "--param"),
            "secrets": self.secrets and secrets_from(self.secrets),
            "browser": self.browser,
            "deterministic": self.deterministic,
            "limits": limits_from(self.memory, self.disk, self.cpus),
            "cell_deadline_s": self.deadline,
            "deadline_limit_s": self.deadline_limit,
        }
        if self.size is not None:
            said["width"], said["height"] = _size(self.size)
        try:
            return Spec(**{name: value for name, value in said.items() if value is not None})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            name = _OPTION_OF.get(name.partition(".")[0], name)
            input_ = repr(first["input"])[:_GIVEN_CHARS]
            given = "" if name == "--env" else f" (given: {input_})"  # a value is nobody else's business
            raise UsageError(f"{name}: {first['msg']}{given}. Nothing was started.") from error

    def secret_values(self) -> dict[str, str]:
        """Return the value of each secret, by name.

        Raises:
            UsageError: One is not there.
        """
        return values_of(secrets_from(self.secrets or ()))


with_spec_options = with_options(asked=SpecOptions)
"""Gives a command these options besides its own, and has it take them together as its `asked`."""


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


def existing_file(path: Path) -> Path:
    """Return the path of what --file names; raises UsageError when it is not there."""
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


def variable(word: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`, or of `NAME`, with the caller's value.

    Raises:
        UsageError: It is neither.
    """
    name, equals, value = word.partition("=")
    if not _NAME.fullmatch(name):
        raise UsageError(f"--env {name!r} is not the name of a variable. Nothing was started. Write NAME=VALUE.")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {name}: this variable is not set here. Nothing was started. Write {name}=VALUE.")
    return name, os.environ[name]
