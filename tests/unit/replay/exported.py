"""An export, read: its text, and a page of which only what is ours may be markup."""

from __future__ import annotations

import io
from html.parser import HTMLParser

from cellwright.record import Run
from cellwright.replay.export import Form, export

PICTURES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,")


def written(run: Run, form: Form) -> str:
    file = io.BytesIO()
    export(run, form, file)
    return file.getvalue().decode()


class Page(HTMLParser):
    """A page that holds nothing but what is ours."""

    ALLOWED = frozenset(
        "html head meta title style body h1 h2 table tr td section p pre span img figure figcaption div input details summary "
        "ins del script a".split()
    )

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.pictures: list[str] = []
        self.scripts = 0
        self._is_quiet = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED, tag
        names = {name for name, _ in attrs}
        assert not {name for name in names if name.startswith("on")}
        assert names.isdisjoint({"style", "srcset", "srcdoc"})
        given = dict(attrs)
        assert (given.get("href") or "#").startswith("#")
        if "src" in given:
            assert tag == "img"
            assert (given["src"] or "").startswith(PICTURES)
            self.pictures.append(given["src"] or "")
        self.scripts += tag == "script"
        self._is_quiet = tag in {"style", "script"}

    def handle_endtag(self, tag: str) -> None:
        self._is_quiet = False
        self.words.append(" " if tag in {"td", "h1", "h2", "p", "pre", "title"} else "")

    def handle_data(self, data: str) -> None:
        if not self._is_quiet:
            self.words.append(data)
