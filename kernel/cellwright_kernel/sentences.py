"""What the model is told when a cell did not end by itself, or when something ended between two cells.

Flows in: facts. Flows out: sentences. Decided here: the words. Each says what happened and what is left: which
variables, which files, which windows, which processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cellwright_kernel.wire import LANGUAGE_NAMES, Language

_MOST_NAMED: Final = 5
_URL_CHARS: Final = 100
_PAGES: Final[dict[Language, str]] = {"python": "context.pages", "javascript": "context.pages()"}
_CLOSE: Final[dict[Language, str]] = {
    "python": 'await (await browser.new_browser_cdp_session()).send("Target.closeTarget", {{"targetId": "{}"}})',
    "javascript": "await (await browser.newBrowserCDPSession()).send('Target.closeTarget', {{ targetId: '{}' }})",
}


@dataclass(frozen=True)
class Left:
    """What was found after a cell was ended."""

    language: Language
    kernel_kept: bool
    ended: Sequence[str]
    """Command lines of processes that were ended with the cell."""
    running: Sequence[str]
    """Command lines of processes that earlier cells started and that go on."""
    keys: int
    """Held keys and buttons that were let go."""


def interrupted(left: Left, *, deadline_s: float | None, was_killed: bool = True) -> str:
    """Return what to say of a cell that was ended.

    Args:
        left: What was found.
        deadline_s: The deadline that ended it; None when somebody asked.
        was_killed: False when a kernel that is gone went by itself, at the interrupt.
    """
    why = "on request" if deadline_s is None else f"at its deadline of {_rounded(deadline_s)} s"
    name = LANGUAGE_NAMES[left.language]
    if left.kernel_kept:
        first = f"The cell was interrupted {why}. The {name} kernel goes on: variables set so far are kept. "
        windows = "windows of what still runs" if left.ended else "windows"
        first += f"Files, browser pages and {windows} are as the code left them. "
        first += "Background tasks and threads that the code had started may still be running."
    else:
        how = (
            f"since the {name} kernel did not stop, it was killed" if was_killed else f"the {name} kernel ended with it"
        )
        first = f"The cell was ended {why}; {how}. {_lost(name)}"
    return " ".join([first, *_others(left)])


def restarted(left: Left) -> str:
    """Return what to say of a cell during which the kernel was restarted on request."""
    name = LANGUAGE_NAMES[left.language]
    return " ".join([f"The {name} kernel was restarted on request while this cell ran. {_lost(name)}", *_others(left)])


def died(left: Left, how: str) -> str:
    """Return what to say of a cell that took its kernel with it.

    Args:
        left: What was found.
        how: How the process ended, as a sentence.
    """
    name = LANGUAGE_NAMES[left.language]
    first = f"The {name} kernel died while it executed this cell. {how}{_usually(how)}"
    return " ".join([first, f"Output up to then is kept. {_lost(name)}", *_others(left)])


def died_between(language: Language, how: str) -> str:
    """Return what to say before the cell that finds its kernel gone."""
    name = LANGUAGE_NAMES[language]
    return f"Since the last cell the {name} kernel has ended. {how}{_usually(how)} A new one was started. {_gone(name)}"


def did_not_answer(language: Language) -> str:
    """Return what to say before the cell after a kernel was replaced because it was stuck."""
    name = LANGUAGE_NAMES[language]
    return f"After the last cell the {name} kernel did not answer any more and was replaced. {_gone(name)}"


def restarted_between(language: Language) -> str:
    """Return what to say before the first cell of a kernel that was restarted on request."""
    name = LANGUAGE_NAMES[language]
    return f"The {name} kernel was restarted on request. {_gone(name)}"


def not_started(language: Language, why: str) -> str:
    """Return what to say of a cell for which no kernel could be started."""
    return f"The code was not executed: no {LANGUAGE_NAMES[language]} kernel could be started. {why}"


def still_starting(language: Language, *, was_ended: bool) -> str:
    """Return what to say of a cell whose deadline came before its kernel and the desktop were up.

    Args:
        language: The kernel's.
        was_ended: Whether nothing was starting: after a cell that had been ended, display, browser and kernel were asked
            whether they answer.
    """
    name = LANGUAGE_NAMES[language]
    if was_ended:
        return (
            "The code was not executed: the cell before it had been ended, and until this one had to end too, it was not "
            f"known yet whether display, browser and {name} kernel still answer. Usually one of them hangs. Send the cell again."
        )
    return f"The code was not executed: the {name} kernel, or the desktop, was still starting when the cell had to end."


def page_refused(sentence: str) -> str:
    """Return what to say of a page without TLS that the way out refused: to code it looks as if it were there."""
    return f"A page was refused, and the browser shows the refusal in its place: {sentence}"


def failed_page_came_late(language: Language) -> str:
    """Return what to say of a page that was not opened because the failure of the one before was not shown yet.

    Playwright says that a page failed before Chromium shows its own page about that, whatever the failure; 9 of 12 went
    wrong so, and none that waited.
    """
    wait = "page.wait_for_url" if language == "python" else "page.waitForURL"
    return (
        "The page before this one could not be opened, and Chromium's own page about that came in the way. Where code goes on "
        f"after such a failure, wait for that page first: await {wait}('chrome-error://chromewebdata/')"
    )


def taken(language: Language) -> str:
    """Return what to say of a cell that ended while it waited for what an attached console executes."""
    name = LANGUAGE_NAMES[language]
    return (
        f"The code was not executed: somebody attached a console to the {name} kernel, and what they execute there was "
        f"still running when this cell had to end. All variables are kept. Send the cell again later, or restart the "
        f"{name} kernel, which ends that and loses its variables."
    )


def page_was_busy(url: str, *, is_free: bool) -> str:
    """Return what to say of a page that did not answer after a cell had been ended.

    Args:
        url: Its address; empty while its process, which is busy, has another one to show.
        is_free: Whether it answers now.
    """
    page = f"the page {_cut(url)}" if url else "a page that was on its way to another address"
    first = f"After the last cell {page} did not answer"
    if is_free:
        return f"{first}: its JavaScript was computing. That was stopped, so that the page can be used; the page is as its JavaScript left it."
    return (
        f"{first}, and still does not after its JavaScript was told to stop. Usually its process is stopped, or hangs. Close it, and open "
        "another page: `page = await context.new_page()`, in JavaScript `newPage()`."
    )


def page_silent(url: str, target_id: str, awaited: str | None, instead: str, language: Language) -> str:
    """Return what to say of a page that did not answer when Playwright connected.

    Args:
        url: Its address.
        target_id: Chromium's name of it.
        awaited: The address that it waits for a server to send; None when it waits for none.
        instead: Address of the page that is used.
        language: Whose kernel tells it.
    """
    if awaited is None:
        first = (
            f"The page {_cut(url)} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes "
            "without end, or its process was stopped. Until it answers"
        )
    else:
        first = f"A page is still loading {_cut(awaited)}: its server has not answered yet. Until it does,"
    return (
        f"{first} it is not in `{_PAGES[language]}`; the others are, and `page` is {_cut(instead)}. To close it: "
        f"`{_CLOSE[language].format(target_id)}`"
    )


def host_fault(error: BaseException) -> str:
    """Return what to say when the kernel host itself failed at a cell."""
    return f"The kernel host failed at this cell ({type(error).__name__}: {error}). A new kernel is started."


def unkept(error: BaseException) -> str:
    """Return what to say when the kernel host itself failed at keeping the desktop."""
    return (
        f"The kernel host failed at watching display and browser ({type(error).__name__}: {error}). They run on, with all "
        "windows and pages, but what ends of them is not started again. Open a new session for a desktop that is."
    )


def _usually(how: str) -> str:
    """Return what such an end usually means, with a space before it; empty where nothing is usual."""
    if "exited with status" in how:
        return " Usually the code, or a library, ended the process itself."
    meaning = next((meaning for names, meaning in _MEANINGS if any(name in how for name in names)), None)
    return f" Usually {meaning}." if meaning else ""


_MEANINGS: Final = (
    (("SIGKILL",), "memory ran out, or the code killed it"),
    (
        ("SIGSEGV", "SIGABRT", "SIGTRAP", "SIGBUS", "SIGILL", "SIGFPE"),
        "a compiled library failed, or got no more memory",
    ),
)


def _lost(name: str) -> str:
    return f"All {name} variables are gone; a new kernel starts before the next cell. {_KEPT}"


def _gone(name: str) -> str:
    return f"All {name} variables are gone. {_KEPT}"


_KEPT: Final = (
    "Files and the browser with its pages are kept; pages in contexts that the code had made, and windows of programs "
    "that cells had started, are closed."
)


def _others(left: Left) -> list[str]:
    sentences = []
    if left.ended:
        sentences.append(f"Processes that were ended: {_named(left.ended)}.")
    if left.running:
        sentences.append(f"Still running from before: {_named(left.running)}.")
    if left.keys:
        sentences.append(f"Held keys and buttons were let go ({left.keys}).")
    return sentences


def _rounded(seconds: float) -> str:
    """Return them as they were meant: of what a sandbox's start took from a deadline, a part of a second may be left."""
    return f"{round(seconds, 1 if seconds >= 1 else 3):g}"


def _cut(url: str) -> str:
    return url if len(url) <= _URL_CHARS else f"{url[:_URL_CHARS]}..."


def _named(commands: Sequence[str]) -> str:
    counted = [
        f"`{name}`" + (f" ({commands.count(name)} times)" if commands.count(name) > 1 else "")
        for name in dict.fromkeys(commands)
    ]
    more = len(counted) - _MOST_NAMED
    return ", ".join(counted[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
