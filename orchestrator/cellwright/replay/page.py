"""Pages of one file that need nobody: the parts that a run's page and a replay's report share.

Flows in: texts and pictures. Flows out: HTML. Decided here: nothing of a stranger is ever markup: every text is escaped, a picture
is a `data:` URL of one of three types; and a policy in the page itself allows nothing from anywhere, no script but our own by its
hash, no form and no frame, so that even a mistake here would do nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from typing import Final

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import JavascriptLexer, PythonLexer

from cellwright.plain import plain
from cellwright.replay.export_parts import Picture, short
from cellwright_kernel.wire import Language

_LEXERS: Final = {"python": PythonLexer, "javascript": JavascriptLexer}
_COLOURED_CHARS: Final = 16 * 1024
_COLOURED_LINE: Final = 2_000
"""Longer lines are not coloured: a lexer's patterns may take very long on what was made for that."""


def document(title: str, body: Iterable[str], *, script: bool = False) -> Iterator[str]:
    """Yield a whole page.

    Args:
        title: A text.
        body: HTML, piece by piece.
        script: Whether its sliders work.
    """
    css, js = _own("page.css"), _own("page.js")
    allowed = f"script-src '{_hash(js)}'; " if script else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(css)}'; {allowed}base-uri 'none'; form-action 'none'"
    )
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="referrer" content="no-referrer">\n<meta name="viewport" content="width=device-width">\n'
    yield f"<title>{text(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n"
    yield from body
    yield f"<script>{js}</script>\n" if script else ""
    yield "</body>\n</html>\n"


def text(words: str) -> str:
    """Return a stranger's words as text of a page."""
    return escape(plain(words))


def block(words: str, kind: str) -> str:
    """Return words as they are laid out; `kind` is a class of ours."""
    return f'<pre class="{kind}">{text(words)}</pre>\n'


def code(source: str, language: Language) -> str:
    """Return code, coloured where that costs little."""
    shown = short(source)
    if len(shown) > _COLOURED_CHARS or max(map(len, shown.split("\n"))) > _COLOURED_LINE:
        return block(shown, "code")
    # `ensurenl` and `stripnl` would change where code begins and ends
    lexer = _LEXERS[language](stripnl=False, ensurenl=False)
    return f'<pre class="code">{highlight(shown, lexer, HtmlFormatter(nowrap=True))}</pre>\n'


def picture(shown: Picture, alternative: str) -> Iterator[str]:
    """Yield a picture; `alternative` is said where it cannot be shown."""
    yield f'<img width="{shown.width}" height="{shown.height}" alt="{text(alternative)}" loading="lazy" '
    yield f'src="data:{shown.media_type};base64,'
    yield base64.b64encode(shown.data).decode("ascii")
    yield '">\n'


def _own(name: str) -> str:
    return files("cellwright.replay").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
