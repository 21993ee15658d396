"""An exception, as the model is to read it.

Flows in: an exception. Flows out: its type's name, its message and plain lines. Decided here: which frames are shown,
namely those in the model's own cells and in files it wrote below its home; not IPython's, not a library's. What Python
prints beside frames stays: chained causes, groups, the caret of a syntax error, repeated frames said once.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import site
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_MAX_LINES = 80
_MAX_MESSAGE_CHARS = 1024 * 1024
"""What is longer is cut before it is formatted: an error with 80 MiB of text took seven seconds, and the sandbox with it."""
_CUT_CHARS = 8_000
"""So much is left of it; with its frames it is shown whole, and with it how much is missing."""
_MAX_FRAMES = 600
"""Frames looked at on either end; an endless recursion has many more."""
_HEADINGS = ("Traceback (most recent call last):", "Exception Group Traceback (most recent call last):")

_SYNC_API_HINT = (
    "Hint: the sync API cannot run here. Use the async one: `page` is ready-made, as in `await page.goto(url)`; "
    "or `from playwright.async_api import async_playwright`."
)
_DEBUGGER_HINT = "Hint: nobody is there to type into a debugger. Use log(), or look at the variables in the next cell: they are kept."


@dataclass(frozen=True, slots=True)
class Failure:
    """What is told of an exception."""

    name: str
    """Name of its type."""
    value: str
    """Its message."""
    lines: tuple[str, ...]
    """Plain text, as it is to be read."""


def describe(error: BaseException, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Failure:
    """Say what happened, with the model's own frames.

    Args:
        error: The exception, with its traceback.
        before: Lines to stand above.
        after: Lines to stand below, such as what to do.
    """
    if type(error).__module__ == "IPython.core.error":  # a magic used wrongly: where it happened is plain
        return Failure(type(error).__name__, _text(error), (*before, f"{type(error).__name__}: {_text(error)}", *after))
    error = _as_raised(error)
    if isinstance(error, SystemExit) and not after:
        after = ("The kernel goes on: exit() only ends the cell. Variables are kept.",)
    if "Sync API inside the asyncio loop" in _text(error):
        after = (*after, _SYNC_API_HINT)
    if type(error).__name__ == "BdbQuit":
        after = (*after, _DEBUGGER_HINT)
    lines = _bounded(list(_lines(error)))
    if isinstance(error, SystemExit) and error.code is None:
        lines[-1] = "SystemExit"
    value = _shortened(_text(error))
    return Failure(type(error).__name__, value, (*before, *lines, *after))


def as_interrupt(error: BaseException) -> BaseException:
    """What an awaiting cell raises when it was interrupted, under the name that a synchronous cell gives it."""
    return (
        KeyboardInterrupt().with_traceback(error.__traceback__) if isinstance(error, asyncio.CancelledError) else error
    )


def warning_text(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning as text; where it stands only if that is in the model's own code."""
    if not is_own_file(filename):
        return f"{category.__name__}: {message}\n"
    code = linecache.getline(filename, lineno) if line is None else line
    return f"{filename}:{lineno}: {category.__name__}: {message}\n" + (f"  {code.strip()}\n" if code.strip() else "")


def is_own_file(filename: str) -> bool:
    """Whether the model wrote it: a cell, or a file below its home that was not installed."""
    if filename.startswith("<cell "):
        return True
    if filename.startswith("<"):
        return False
    path = os.path.realpath(filename)
    if not path.startswith(_home()) or path.startswith(_installed()):
        return False
    return Path(filename).is_absolute() or Path(filename).is_file()  # compiled libraries name `pandas/_libs/index.pyx`


def _as_raised(error: BaseException) -> BaseException:
    """A StopIteration that left a cell: Python calls it a RuntimeError, because a cell runs as a coroutine."""
    cause = error.__cause__
    if isinstance(error, RuntimeError) and isinstance(cause, StopIteration) and not _has_own_frame(error.__traceback__):
        return cause
    return error


def _has_own_frame(trace: TracebackType | None) -> bool:
    return any(is_own_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(trace))


def _home() -> str:
    return os.path.realpath(Path("~").expanduser()) + os.sep


def _installed() -> tuple[str, ...]:
    own = str(Path(__file__).resolve().parents[1])
    places = (own, sys.prefix, sys.base_prefix, site.getusersitepackages())
    return tuple(os.path.realpath(place) + os.sep for place in places if place != "/")


def _lines(error: BaseException) -> Iterator[str]:
    if isinstance(error, SyntaxError) and not error.text and error.filename and error.lineno:
        error.text = linecache.getline(error.filename, error.lineno)  # found only by the compiler, not by the parser
    trace = traceback.TracebackException(
        type(error), error, _trimmed(error.__traceback__), lookup_lines=False, compact=True
    )
    _keep_own_frames(trace, set())
    pending = None
    for line in "".join(trace.format()).rstrip("\n").split("\n"):
        if pending is not None and line.lstrip(" |").startswith(("File ", "[")):
            yield pending
        pending = line if line.lstrip(" +|") in _HEADINGS else None
        if pending is None:
            yield line


def _keep_own_frames(trace: traceback.TracebackException, seen: set[int]) -> None:
    if id(trace) in seen:
        return
    seen.add(id(trace))
    _shorten_message(trace)
    trace.stack[:] = [frame for frame in trace.stack if is_own_file(frame.filename)]
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        if other is not None:
            _keep_own_frames(other, seen)


def _shorten_message(trace: traceback.TracebackException) -> None:
    """Cut what it was told to say; the exception itself stays as it is."""
    for name in ("_str", "msg", "text"):  # a message, and of a syntax error also what it says and where
        said = getattr(trace, name, None)
        if isinstance(said, str):
            setattr(trace, name, _shortened(said))
    if isinstance(notes := trace.__notes__, list):
        trace.__notes__ = [_shortened(note) if isinstance(note, str) else note for note in notes]


def _shortened(text: str) -> str:
    """Leave out the middle of a text that is far too long."""
    if len(text) <= _MAX_MESSAGE_CHARS:
        return text
    half = _CUT_CHARS // 2
    return f"{text[:half]}[... {len(text) - 2 * half:,} characters left out ...]{text[-half:]}"


def _trimmed(trace: TracebackType | None) -> TracebackType | None:
    """The first and the last frames of a very deep traceback."""
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    if len(frames) > 2 * _MAX_FRAMES:
        frames = frames[:_MAX_FRAMES] + frames[-_MAX_FRAMES:]
    rest = None
    for frame in reversed(frames):
        rest = TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest


def _bounded(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    half = _MAX_LINES // 2
    missing = len(lines) - 2 * half
    return [*lines[:half], f"  [{missing} line{'s' if missing > 1 else ''} of the traceback left out]", *lines[-half:]]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the model's own __str__ may do anything
        return "<its message could not be shown>"
