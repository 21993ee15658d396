"""What is sent to a model and what must hold before it is done, said the same way by `run`, `resume`, `fork` and `prompt`.

Flows in: the words after `--pictures`, `--prompts`, `--schema`, `--verify` and their like. Flows out: the terms that were said. Decided
here: that every file named is read, and what stands in it checked, before anything starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.errors import CodeTooLarge, UsageError
from cellwright.history import Pictures
from cellwright.prompts.templates import read_prompts
from cellwright.terms import TermsGiven, pictures_from
from cellwright.validity import read_schema
from cellwright_kernel.wire import CODE_BYTES, Language

_USUAL: Final = Pictures()
_JAVASCRIPT: Final = frozenset({".js", ".mjs", ".cjs"})


@dataclass(frozen=True, kw_only=True)
class TermOptions:
    """The options, as they were given; absent: not given, so as usual or, in a run that goes on, as they were."""

    pictures: Annotated[
        str | None,
        typer.Option(
            metavar="MOST:KEPT",
            help="Once more than MOST pictures would be sent, all but the newest KEPT are no longer; `all`: none is left out. "
            f"Default: {_USUAL.most}:{_USUAL.kept}.",
        ),
    ] = None
    compact_at: Annotated[
        int | None,
        typer.Option(
            "--compact-at",
            metavar="TOKENS",
            min=0,
            help="Before a request of about so many tokens, the model sums up, and the summary is sent instead. Default: 0, never.",
        ),
    ] = None
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Files of this folder take the place of our prompts of the same name."),
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The final answer must be JSON that satisfies this JSON schema: the result."),
    ] = None
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Command that must succeed on this machine before the run is done; it finds the final answer on standard "
            "input, and the run's folder as its own. Whoever resumes the run gives it again.",
        ),
    ] = None
    verify_cell: Annotated[
        Path | None,
        typer.Option(
            "--verify-cell",
            metavar="FILE",
            help="Code that must succeed in the session before the run is done, and not give False; .js: JavaScript.",
        ),
    ] = None

    @property
    def given(self) -> TermsGiven:
        """What they say.

        Raises:
            UsageError: A file cannot be read, or does not say what it must.
        """
        code = None if self.verify_cell is None else _code(self.verify_cell)
        is_javascript = self.verify_cell is not None and self.verify_cell.suffix in _JAVASCRIPT
        language: Language = "javascript" if is_javascript else "python"
        if self.verify is not None and not self.verify.strip():
            raise UsageError("--verify is empty, and would verify nothing. Nothing was started. Give a command.")
        if self.pictures is not None:
            pictures_from(self.pictures)  # or a fork would be made that cannot start
        return TermsGiven(
            pictures=self.pictures,
            compact_at=self.compact_at,
            prompts=None if self.prompts is None else read_prompts(self.prompts),
            result_schema=None if self.schema is None else read_schema(self.schema),
            verify=self.verify,
            verify_cell=code,
            verify_language=language,
        )


def _code(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--verify-cell: {path} cannot be read: {error.strerror}. Nothing was started.") from error
    if len(data) > CODE_BYTES:
        raise CodeTooLarge(
            f"--verify-cell: {path} has {len(data)} bytes; a cell may have {CODE_BYTES}. Nothing was started."
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"--verify-cell: {path} is no text in UTF-8 ({error}). Nothing was started.") from error
