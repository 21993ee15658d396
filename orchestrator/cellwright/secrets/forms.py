"""The ways in which a secret may be written, each as something that can be looked for.

Flows in: a value. Flows out: its forms. Decided here: which encodings count: the value itself; with some characters
escaped, as URLs, JSON, HTML and Python's repr do; all of it percent-encoded, escaped or in hexadecimal; and base64 in both
alphabets, wherever in what was encoded it stood, in one line or wrapped. What code does on purpose, such as turning it
around, is none of them.
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import quote

Part = tuple[str, ...]
"""The words that stand for one part of a value."""

_BREAKS: Final = ("", "\n", "\r\n", "\\n", "\\r\\n")
"""What may stand before a character of wrapped base64; escaped, where it was printed as a literal."""
_SPACES: Final = (
    "+",
    "%2B",
    "%2b",
    "\xa0",
    "&nbsp;",
    "&#160;",
    "&#xa0;",
    "%C2%A0",
    "%c2%a0",
    "\\u00a0",
    "\\u00A0",
    "\\xa0",
)
"""What may stand for a space: a page's own editor makes it one that does not break."""
_BASE64_EDGE: Final = "[A-Za-z0-9+/_-]?"
"""A character that holds bits of the value and of its neighbour."""


@dataclass(frozen=True)
class Form:
    """One way to write a value: a word of each part, in order."""

    parts: tuple[Part, ...]
    is_base64: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What finds it."""
        body = "".join(map(_alternatives, self.parts))
        return re.compile(f"{_BASE64_EDGE}{body}{_BASE64_EDGE}={{0,2}}" if self.is_base64 else body)

    @cached_property
    def most_chars(self) -> int:
        """How long it can be."""
        return sum(max(map(len, words)) for words in self.parts)

    @cached_property
    def hint(self) -> str:
        """What a text without line breaks must contain to contain this: its longest run without alternatives."""
        runs, run = [""], ""
        for words in self.parts:
            run = run + words[0] if len(words) == 1 or self.is_base64 else ""
            runs.append(run)
        return max(runs, key=len)

    @cached_property
    def first_chars(self) -> frozenset[str]:
        """The characters that it can begin with."""
        return frozenset(word[0] for word in self.parts[0])

    def may_begin(self, text: str) -> bool:
        """Return whether a text is the beginning of it, and not yet all."""
        if not text or text[0] not in self.first_chars:
            return False
        reached = {0}
        for words in self.parts:
            further: set[int] = set()
            for at in reached:
                for word in words:
                    if text.startswith(word, at):
                        further.add(at + len(word))
                    elif len(text) - at < len(word) and word.startswith(text[at:]):
                        return True
            if not further:
                return False
            reached = further
        return False

    def may_end(self, text: str) -> bool:
        """Return whether a text is the end of it, and not all."""
        return self._reversed.may_begin(text[::-1])

    def of_bytes(self) -> Form:
        """Return it as it is found in UTF-8 that was read a byte for a character."""
        return Form(
            tuple(tuple(word.encode().decode("latin-1") for word in words) for words in self.parts), self.is_base64
        )

    @cached_property
    def _reversed(self) -> Form:
        return Form(tuple(tuple(word[::-1] for word in words) for words in self.parts[::-1]))


def forms_of(value: str) -> tuple[Form, ...]:
    """Return the forms of a value that has several characters, without two that are the same."""
    found = [Form(tuple(map(_words, value))), *map(_whole, _escaped_in_full(value))]
    for data in _bytes_of(value):
        found += map(_whole, (data.hex(), data.hex().upper()))
        found += (Form(_wrapped(text), is_base64=True) for text in _base64_of(data))
    return tuple(dict.fromkeys(found))


def _alternatives(words: Part) -> str:
    if len(words) == 1:
        return re.escape(words[0])
    return f"(?:{'|'.join(re.escape(word) for word in sorted(words, key=len, reverse=True))})"


def _words(char: str) -> Part:
    """Return how a character is written by whoever escapes only some: letters and digits stand for themselves."""
    if char.isascii() and char.isalnum():
        return (char,)
    percent = quote(char, safe="")
    if percent == char:  # it need not be escaped, and may be
        percent = f"%{ord(char):02X}"
    units = _utf16(char)
    number = ord(char)
    words = [
        *(char, percent, percent.lower(), percent.replace("%", "%25"), percent.lower().replace("%", "%25")),
        *(units, units.lower(), units.replace("\\", "\\\\"), units.lower().replace("\\", "\\\\")),
        *(
            html.escape(char),
            f"&#{number};",
            f"&#x{number:x};",
            f"&#x{number:X};",
            f"&#{number:02};",
            f"&#{number:03};",
        ),
        repr(char)[1:-1],
        repr(char.encode())[2:-1],
        *(_SPACES if char == " " else ()),
        *((f"\\U{number:08x}",) if number > 0xFFFF else ()),
        *((f"\\{char}", f"\\\\\\{char}", f"\\\\{char}") if char in "\"'/\\`$" else ()),
        *(("&apos;", "&#039;") if char == "'" else ()),
        *(("\\\\\\\\",) if char == "\\" else ()),
        json.dumps(char)[1:-1],
    ]
    return tuple(dict.fromkeys(words))


def _escaped_in_full(value: str) -> Iterator[str]:
    """Yield what whoever escapes every character writes."""
    data = value.encode()
    percent, hexadecimal = "".join(f"%{byte:02X}" for byte in data), "".join(f"\\x{byte:02x}" for byte in data)
    units = "".join(map(_utf16, value))
    numbers = "".join(f"&#{ord(char)};" for char in value), "".join(f"&#x{ord(char):x};" for char in value)
    yield from (percent, percent.lower(), hexadecimal, hexadecimal.replace("\\x", "\\X").upper().replace("\\X", "\\x"))
    yield from (units, units.lower(), *numbers)
    yield from ("%25".join(["", *percent.split("%")[1:]]), " ".join(f"{byte:02x}" for byte in data))


def _utf16(char: str) -> str:
    """Return a character's escapes in JSON and JavaScript."""
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[at : at + 2].hex().upper()}" for at in range(0, len(data), 2))


def _bytes_of(value: str) -> Iterable[bytes]:
    found = [value.encode(), value.encode("utf-16-le")]
    if not value.isascii():
        with contextlib.suppress(UnicodeEncodeError):
            found.append(value.encode("latin-1"))  # as a page's `btoa` takes it
    return found


def _base64_of(data: bytes) -> Iterator[str]:
    """Yield the characters that are the value's alone, for each of three places where it can begin in what was encoded."""
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode()
        own = coded[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        yield own
        yield own.replace("+", "-").replace("/", "_")


def _wrapped(text: str) -> tuple[Part, ...]:
    return ((text[0],), *(tuple(f"{broken}{char}" for broken in _BREAKS) for char in text[1:]))


def _whole(text: str) -> Form:
    return Form(tuple((char,) for char in text))
