"""What `ui` gives: elements with role, name and box, in one tree over pages and native programs.

Flows in: elements, made by the readers of pages and programs. Flows out: an outline, what was asked for, and sentences
when it is not there. Decided here: the form of an outline and where it is cut; how a name is compared; what is
clickable, and that whatever a program calls itself is one line of printable text of bounded length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, SupportsIndex, overload

from cellwright_kernel.boxes import Box

_NAME_CHARS: Final = 200
_OUTLINE_CHARS: Final = 10_000
"""Of one item of an answer 12,000 are left whole."""
_NAMED: Final = 12
_WINDOWS: Final = frozenset({"window", "dialog"})
_JOINERS: Final = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class Element:
    """Something on the screen that has a role."""

    role: str
    """In ARIA's words, for native programs too: `button`, `textbox`, `checkbox`; `window` and `page` for these."""
    name: str = ""
    box: Box | None = None
    """Where it is, whole; None when it has no place on the screen."""
    states: tuple[str, ...] = ()
    """Such as `focused`, `checked`, `disabled`; `offscreen` when nothing of it is in sight, `covered` by another
    window."""
    value: str = ""
    """What a field holds."""
    note: str = ""
    """What else is to be known: of a window its program, of a page its address."""
    children: tuple[Element, ...] = ()
    seen: Box | None = None
    """The part of its box that is in sight."""

    @property
    def center(self) -> tuple[int, int]:
        """Where to click: `pyautogui.click(*element.center)`, the middle of what is in sight of it.

        Raises:
            ValueError: nothing of it is on the screen.
        """
        if self.seen is None:
            how = "is out of sight: scroll to it first" if self.box else "has no place on the screen of its own"
            raise ValueError(f"{self.described()} {how}.")
        left, top, width, height = self.seen
        return left + width // 2, top + height // 2

    def __iter__(self) -> Iterator[Element]:
        """Itself, and all that is in it."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting += reversed(element.children)

    def __repr__(self) -> str:
        return f"<{self.described()}>"

    def __await__(self) -> Generator[None, None, Element]:
        """So that `await ui.wait(...)` is right as well."""
        return self
        yield

    def described(self) -> str:
        """Return it as a line of the outline."""
        parts = [self.role]
        if self.name:
            parts.append(_quoted(self.name))
        if self.box is not None:
            left, top, width, height = self.box
            parts.append(f"[{left},{top} {width}x{height}]")
        parts += self.states
        if self.value:
            parts.append(f"= {_quoted(self.value)}")
        if self.note:
            parts.append(f"({self.note})")
        return " ".join(parts)


class Found(list[Element]):
    """The elements that were asked for, in the tree's order; when there is none, asking for one says what there is."""

    def __init__(self, elements: Iterable[Element], missing: str, *, is_whole: bool = True) -> None:
        super().__init__(elements)
        self.missing = missing
        self.is_whole = is_whole
        """Whether all that is on the screen was read."""

    @overload
    def __getitem__(self, at: SupportsIndex) -> Element: ...
    @overload
    def __getitem__(self, at: slice) -> list[Element]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Element | list[Element]:
        """Like a list's.

        Raises:
            LookupError: it is empty; with what there is instead.
        """
        if not self and not isinstance(at, slice):
            raise LookupError(self.missing)
        return super().__getitem__(at)

    def certain(self) -> Found:
        """Return itself.

        Raises:
            LookupError: it is empty, but not all was read, so that nothing follows from that; with what was not.
        """
        if not self and not self.is_whole:
            raise LookupError(self.missing)
        return self

    def __await__(self) -> Generator[None, None, Found]:
        """So that `await ui.find(...)` is right as well."""
        return self
        yield


@dataclass(frozen=True, slots=True)
class Tree:
    """All windows, topmost first, with what is in them."""

    windows: tuple[Element, ...]
    problems: tuple[str, ...] = ()
    """What could not be read, and why; a sentence each."""
    unread: tuple[str, ...] = ()
    """Those of them because of which something on the screen may be missing here."""

    def __iter__(self) -> Iterator[Element]:
        """Every element, in the outline's order."""
        for window in self.windows:
            yield from window

    def __str__(self) -> str:
        return self.outline()

    __repr__ = __str__

    def __await__(self) -> Generator[None, None, Tree]:
        """So that `await ui.tree()` is right as well."""
        return self
        yield

    def outline(self, chars: int = _OUTLINE_CHARS) -> str:
        """Return one line an element, indented; what is beyond `chars` is left out and counted."""
        lines = [f"({problem})" for problem in self.problems]
        lines += [line for window in self.windows for line in _lines(window, 0)]
        kept, length = 0, 0
        while kept < len(lines) and length + len(lines[kept]) < chars:
            length += len(lines[kept]) + 1
            kept += 1
        if kept < len(lines):
            left = len(lines) - kept
            lines[kept:] = [f"… {left} more lines are left out: ui.tree(window=...), or ui.find(role=..., name=...)."]
        return "\n".join(lines) or "There is no window on the screen."

    def of_window(self, title: str | None) -> Tree:
        """Return the tree of those windows alone whose title, or page's title, has this in it, in whatever case.

        Raises:
            LookupError: there is none; with those there are.
        """
        if title is None:
            return self
        kept = tuple(window for window in self.windows if _is_titled(window, title))
        if not kept:
            raise LookupError(f"There is no window {title!r} on the screen; {self._windows_there()}")
        return Tree(kept, self.problems, self.unread)

    def find(self, role: str | None, name: str | None, *, exact: bool = False, window: str | None = None) -> Found:
        """Return the elements of such windows with this role, in ARIA's or AT-SPI's words, and this in their name."""
        try:
            tree = self.of_window(window)
        except LookupError as missing:
            return Found((), " ".join((str(missing), *self.unread)), is_whole=not self.unread)
        found = [element for element in tree if _fits(element, role, name, exact=exact)]
        return Found(found, "" if found else tree._missing(role, name), is_whole=not self.unread)

    def _missing(self, role: str | None, name: str | None) -> str:
        what = (role or "element") + (f" named {name!r}" if name is not None else "")
        sentences = [f"There is no {what} on the screen."]
        if self.unread:
            sentences = [f"There is no {what} in what was read of the screen, which is not all.", *self.unread]
        if role is not None and (names := [one.name or one.value for one in self if _has_role(one, role)]):
            sentences.append(f"With this role there are: {_listed(map(_quoted, names))}.")
        elif name is not None and (named := [one for one in self if _fits(one, None, name, exact=False)]):
            sentences.append(f"So named are: {_listed(one.described() for one in named)}.")
        else:
            roles = Counter(element.role for element in self)
            sentences.append(f"There are: {_listed(f'{count} {kind}' for kind, count in roles.most_common())}.")
        sentences += [problem for problem in self.problems if problem not in self.unread]
        if mute := [window.name for window in self.windows if MUTE in window.note]:
            sentences.append(f"No elements are known of {_listed(map(_quoted, mute))}: look at a screenshot.")
        return " ".join(sentences)

    def _windows_there(self) -> str:
        titles = [_quoted(window.name) for window in self.windows]
        return f"there are: {_listed(titles)}." if titles else "there is no window at all."


MUTE: Final = "it tells nothing of its elements: use a screenshot, screen.find_text"
"""What is noted of a window whose program has no accessibility."""


def clean(text: object, chars: int = _NAME_CHARS) -> str:
    """Return one line of printable text, cut at `chars`, of whatever a program or page says."""
    said = "".join(one if one.isprintable() or one in _JOINERS else " " for one in str(text)[: 4 * chars])
    line = " ".join(said.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def is_window(role: str | None) -> bool:
    """Whether only windows can have this role, so that nothing in them need be read."""
    return role is not None and role.strip().casefold() == "window"


def _lines(element: Element, depth: int) -> Iterator[str]:
    yield f"{'  ' * min(depth, 20)}- {element.described()}"
    for child in element.children:
        yield from _lines(child, depth + 1)


def _fits(element: Element, role: str | None, name: str | None, *, exact: bool) -> bool:
    if role is not None and not _has_role(element, role):
        return False
    return name is None or (element.name == name if exact else _is_within(name, element.name))


def _has_role(element: Element, role: str) -> bool:
    from cellwright_kernel.ui.roles import aria_role  # noqa: PLC0415

    wanted = aria_role(role)
    is_top = element.role in _WINDOWS and element.note != ""
    return element.role == wanted or (wanted == "window" and is_top)


def _is_titled(window: Element, title: str) -> bool:
    # a window takes its page's title a moment later
    pages = (child.name for child in window.children if child.role == "page")
    return any(_is_within(title, name) for name in (window.name, *pages))


def _is_within(wanted: str, name: str) -> bool:
    return " ".join(wanted.split()).casefold() in name.casefold()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _listed(what: Iterable[str]) -> str:
    all_of_them = list(what)
    more = len(all_of_them) - _NAMED
    return ", ".join(all_of_them[:_NAMED]) + (f" and {more} more" if more > 0 else "")
