"""`log`, `display` and the value of the last expression, where no kernel of ours is.

Flows in: values. Flows out: text on standard output; pictures as Jupyter shows them, or as files beside a script. Decided here:
which of these it is, by whether Jupyter's own kernel runs this process; and that what counts as a picture is what counts as one
in a sandbox.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cellwright_kernel.python import images
from cellwright_kernel.python.images import Picture

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp"}


class PlainShow:
    """What the names do.

    Args:
        pictures: Folder for pictures; made when there is one. Absent: Jupyter shows them.
    """

    def __init__(self, pictures: Path | None = None) -> None:
        self._pictures = pictures
        self._count = 0

    def log(self, value: object = "", *more: object) -> None:
        """Print exactly str(value); several values by spaces."""
        print(*map(str, (value, *more)), flush=True)  # noqa: T201 - it is what it is for

    def display(self, *values: Any, **options: Any) -> Any:
        """Show values: images, figures, image files, base64 images or anything with a repr."""
        if self._pictures is None and options:
            from IPython.display import display  # noqa: PLC0415 - heavy, and not everybody has it

            return display(*values, **options)
        for value in values:
            self.show(value, anything=True)
        return None

    def show(self, value: Any, *, anything: bool = False) -> None:
        """Show one value: as what it looks like, else its text.

        Args:
            value: None shows nothing, unless it is to be shown as anything is.
            anything: Whether a text or bytes may be a picture, too.
        """
        if value is None and not anything:
            return
        try:
            picture = images.from_anything(value) if anything else images.from_object(value)
        except ValueError as error:
            self.notice(f"its image could not be shown: {error}")
            picture = None
        if picture is not None:
            self.picture(picture)
        elif self._pictures is None:
            from IPython.display import display  # noqa: PLC0415 - as above

            display(value)
        else:
            self.log(value if anything and isinstance(value, str) else _pretty(value))

    def picture(self, picture: Picture) -> None:
        """Show a picture that is already encoded."""
        if picture.notice:
            self.notice(picture.notice)
        if self._pictures is None:
            from IPython.display import publish_display_data  # noqa: PLC0415 - as above

            size = {"width": picture.width, "height": picture.height}
            publish_display_data({picture.media_type: picture.data}, {picture.media_type: size})
            return
        self._count += 1
        self._pictures.mkdir(parents=True, exist_ok=True)
        file = self._pictures / f"{self._count}.{_ENDINGS[picture.media_type]}"
        file.write_bytes(picture.data)
        self.log(f"[picture of {picture.width}x{picture.height}: {file}]")

    def notice(self, sentence: str) -> None:
        """Say something in Cellwright's own words."""
        print(f"[{sentence}]", file=sys.stderr, flush=True)  # noqa: T201 - as above


def _pretty(value: object) -> str:
    try:
        from IPython.lib.pretty import pretty  # noqa: PLC0415 - as above
    except ImportError:
        return repr(value)
    return str(pretty(value, max_width=120))
