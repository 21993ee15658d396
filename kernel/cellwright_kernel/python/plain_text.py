"""Text that code gives, which may have what no encoding has.

Flows in: any string of Python. Flows out: UTF-8, or a string that has an encoding. Decided here: what becomes of surrogates.
"""

from __future__ import annotations


def clean(text: str) -> str:
    """Return text that every encoding can carry."""
    return text if text.isascii() else encode(text).decode()


def encode(text: str) -> bytes:
    """Return UTF-8; lone surrogates, which no encoding has, become U+FFFD, and pairs of them the character they mean."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
