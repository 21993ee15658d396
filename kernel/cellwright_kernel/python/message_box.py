"""PyAutoGUI's message boxes: `alert`, `confirm`, `prompt`, `password`.

Flows in: what a box says. Flows out: the button or the text, once somebody has answered it. Decided here: a box is a
process of its own, `python -m cellwright_kernel.python.message_box`. In the kernel's own, Tk waits for the answer where
no interrupt reaches it, so the kernel would be killed with all its variables; and a box that a thread shows, so that
the next cell can click it, ends the process when Tk notices the other thread.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

NAMES: Final = ("alert", "confirm", "prompt", "password")


def in_own_process(show: Callable[..., str | None], name: str) -> Callable[..., str | None]:
    """Return one of PyAutoGUI's four functions, done by a process of its own.

    Args:
        show: PyMsgBox's, which does it in this process.
        name: One of `NAMES`.
    """

    @functools.wraps(show)
    def shown(text: Any = "", title: Any = "", *args: Any, **options: Any) -> str | None:
        if options.get("root") is not None:  # a window of this process, which the box belongs to
            return show(text, title, *args, **options)
        options.pop("root", None)
        words = [str(text), str(title), *(_plain(value) for value in args)]
        return _answer_of(name, words, {key: _plain(value) for key, value in options.items()})

    return shown


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    return [str(one) for one in value] if isinstance(value, list | tuple) else str(value)


def _answer_of(name: str, words: list[Any], options: dict[str, Any]) -> str | None:
    box = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, json.dumps([name, words, options])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        said, failed = box.communicate()
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"The box {words[0]!r} was closed, since nobody answered it. Its cell waits for the answer, so nobody can click "
            f"meanwhile: show it from a thread, threading.Thread(target=pyautogui.{name}, args=(...)).start(), and answer it "
            "in the next cell; or give it timeout=, in milliseconds."
        ) from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            box.kill()
        box.wait()
        for pipe in (box.stdout, box.stderr):
            if pipe is not None:
                pipe.close()
    if box.returncode:
        reason = failed.strip().rpartition("\n")[2] or f"it ended with status {box.returncode}"
        raise RuntimeError(f"The box could not be shown: {reason}. Nobody has answered it.")
    answer: str | None = json.loads(said)
    return answer


def main(order: str) -> None:
    """Show one box and print its answer as JSON."""
    name, words, options = json.loads(order)
    json.dump(getattr(importlib.import_module("pymsgbox"), name)(*words, **options), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
