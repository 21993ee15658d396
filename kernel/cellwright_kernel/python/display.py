"""`log`, `display` and the value of the last expression -> messages.

Flows in: values. Flows out: one `display_data` or `execute_result` each, with either one image or one plain text.
Decided here: which of its forms a value is shown in, and that a picture is sent in one encoding only. The message's
content carries `metadata.cellwright`: `source` is log, display, result or notice; an image has `width` and `height`.
"""

from __future__ import annotations

import base64
import io
import json
from typing import Any

from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.lib.pretty import RepresentationPrinter

from cellwright_kernel.python import images
from cellwright_kernel.python.images import Picture
from cellwright_kernel.python.origin import current_origin
from cellwright_kernel.python.plain_text import clean
from cellwright_kernel.python.streams import Writer

_WIDTH_CHARS = 120
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp")


class Show:
    """What the namespace's `log` and `display` do, and what happens to the last value."""

    def __init__(self, writer: Writer, formatter: PlainFormatter) -> None:
        self._writer = writer
        self._formatter = formatter

    def log(self, value: object = "", *more: object) -> None:
        """Send one text to whoever runs this session: exactly str(value); of several values as print() does, by spaces."""
        text = " ".join(map(str, (value, *more))) if more else str(value)
        if self._writer.forked:
            self._writer.forked.write("stdout", f"{text}\n")
        else:
            self._writer.log(current_origin(), text)

    def display(self, *values: Any, **options: Any) -> Any:
        """Show values: images, figures, image files, base64 images or anything with a repr.

        Options are those of IPython's display, which handles them (display_id, metadata and so on).
        """
        if options:
            from IPython.display import display as ipython_display

            return ipython_display(*values, **options)
        for value in values:
            data, metadata = self._formatter.format(value, anything=True)
            if data:
                self._send("display_data", data, {**metadata, "source": "display"})
        return None

    def result(self, value: Any) -> None:
        """Send the value of the last expression."""
        data, metadata = self._formatter.format(value)
        if data:
            self._send("execute_result", data, {**metadata, "source": "result"})

    def result_text(self, text: str) -> None:
        """Send a text in place of the last expression's repr."""
        self._send("execute_result", {"text/plain": text}, {"source": "result"})

    def notice(self, sentence: str) -> None:
        """Tell the model something in Cellwright's own words."""
        self._send("display_data", {"text/plain": sentence}, {"source": "notice"})

    def picture(self, picture: Picture) -> None:
        """Show a picture that is already encoded."""
        data, metadata = _bundle(picture)
        self._send("display_data", data, {**metadata, "source": "display"})

    def _send(self, msg_type: str, data: dict[str, str], note: dict[str, Any]) -> None:
        if sentence := note.pop("notice", None):
            self.notice(sentence)
        content: dict[str, Any] = {"data": data, "metadata": {"cellwright": note}}
        content["execution_count" if msg_type == "execute_result" else "transient"] = (
            getattr(current_origin(), "number", 0) if msg_type == "execute_result" else {}
        )
        if "text/plain" in data:
            data["text/plain"] = clean(data["text/plain"])
        size = sum(map(_size, data.values()))
        self._writer.message(current_origin(), msg_type, content, size=size, metadata={"cellwright": note})


Show.log.__qualname__ = "log"  # so that TypeErrors speak of log(), not of Show.log()
Show.display.__qualname__ = "display"


class PlainFormatter(DisplayFormatter):  # type: ignore[misc]
    """Chooses the one form a value is shown in: an image if it is a picture or offers one, else plain text."""

    def format(
        self, value: Any, include: object = None, exclude: object = None, *, anything: bool = False
    ) -> tuple[dict[str, str], dict[str, Any]]:
        """Mime type and text of a value, and its metadata; both empty when it has shown itself."""
        del include, exclude
        picture = images.from_anything(value) if anything else images.from_object(value)
        if picture is not None:
            return _bundle(picture)
        if self.ipython_display_formatter(value):
            return {}, {}
        return self._of_rich(value) or ({"text/plain": self._plain(value)}, {})

    def _of_rich(self, value: Any) -> tuple[dict[str, str], dict[str, Any]] | None:
        """What an object offers by IPython's protocol, if that is an image or an IPython text."""
        if isinstance(value, type) or type(value).__module__ == "builtins":
            return None
        bundle, _ = self.mimebundle_formatter(value) or ({}, {})
        offered = dict(bundle or {})
        for media_type, method in (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_")):
            if media_type not in offered and hasattr(value, method):
                try:
                    found = getattr(value, method)()
                except Exception as error:  # the model's own method may do anything; its text is still worth showing
                    return self._without_image(value, f"{type(error).__name__}: {error}")
                offered[media_type] = found[0] if isinstance(found, tuple) else found
        for media_type in _IMAGE_TYPES:
            if offered.get(media_type) is not None:
                return self._checked(value, offered[media_type])
        if isinstance(offered.get("text/plain"), str):
            return {"text/plain": offered["text/plain"]}, {}
        if type(value).__module__.startswith(
            "IPython."
        ):  # HTML("..."), JSON(...): their source says more than their repr
            data = getattr(value, "data", None)
            if isinstance(data, dict | list):
                data = json.dumps(data, ensure_ascii=False, default=str)
            if isinstance(data, str):
                return {"text/plain": data}, {}
        return None

    def _checked(self, value: Any, data: object) -> tuple[dict[str, str], dict[str, Any]]:
        try:
            return _bundle(_picture_of(data))
        except ValueError as error:
            return self._without_image(value, str(error))

    def _without_image(self, value: Any, reason: str) -> tuple[dict[str, str], dict[str, Any]]:
        return {"text/plain": f"{self._plain(value)}\n[its image could not be shown: {reason}]"}, {}

    def _plain(self, value: Any) -> str:
        if isinstance(value, str):
            return repr(value)
        plain = self.formatters["text/plain"]
        text = io.StringIO()
        printer = RepresentationPrinter(
            text,
            max_width=_WIDTH_CHARS,
            max_seq_length=plain.max_seq_length,
            singleton_pprinters=plain.singleton_printers,
            type_pprinters=plain.type_printers,
            deferred_pprinters=plain.deferred_printers,
        )
        printer.pretty(value)
        printer.flush()
        return text.getvalue()


class Publisher(DisplayPublisher):  # type: ignore[misc]
    """Where IPython's own display functions end: one image or one text, in order with everything else."""

    writer: Writer

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_ignored: Any,
    ) -> None:
        """Send `display_data`, or `update_display_data` for something shown before."""
        known = (metadata or {}).get("width") is not None
        shown, note = (data, dict(metadata or {})) if known else _reduced(data)
        if (sentence := note.pop("notice", None)) and not update:
            self.shell.show.notice(sentence)
        content = {
            "data": shown,
            "metadata": {"cellwright": {**note, "source": "display"}},
            "transient": transient or {},
        }
        msg_type = "update_display_data" if update else "display_data"
        self.writer.message(current_origin(), msg_type, content, size=sum(map(_size, shown.values())))

    def clear_output(self, wait: bool = False) -> None:
        """Take back what the cell has shown so far."""
        self.writer.message(current_origin(), "clear_output", {"wait": wait})


def _reduced(data: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """One form of a bundle that somebody else has made."""
    for media_type in _IMAGE_TYPES:
        if media_type in data:
            try:
                return _bundle(_picture_of(data[media_type]))
            except ValueError as error:
                return {"text/plain": f"{data.get('text/plain', '')}\n[its image could not be shown: {error}]"}, {}
    for media_type in ("text/plain", "text/markdown", "text/latex", "text/html"):
        if isinstance(data.get(media_type), str):
            return {"text/plain": data[media_type]}, {}
    return {"text/plain": f"[nothing that can be shown: {', '.join(data) or 'empty'}]"}, {}


def _picture_of(data: object) -> Picture:
    if isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=False)
        except ValueError as error:
            raise ValueError(f"not base64: {error}") from error
    if not isinstance(data, bytes):
        raise ValueError(f"expected bytes, got {type(data).__name__}")  # noqa: TRY004 - one kind of failure for callers
    return images.from_bytes(data)


def _bundle(picture: Picture) -> tuple[dict[str, str], dict[str, Any]]:
    text = base64.b64encode(picture.data).decode("ascii")
    metadata: dict[str, Any] = {"width": picture.width, "height": picture.height}
    return {picture.media_type: text}, metadata if picture.notice is None else {**metadata, "notice": picture.notice}


def _size(part: object) -> int:
    """Bytes that it takes as UTF-8."""
    text = str(part)
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
