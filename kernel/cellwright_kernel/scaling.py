"""A picture that is too large -> the size it is shown in, and the sentence that says so.

Flows in: sizes in pixels. Flows out: sizes and a sentence. Decided here: proportions are kept, and the words. The Python
kernel scales what is far too large before it encodes it, the kernel host everything else; both say it the same way.
"""

from __future__ import annotations

Size = tuple[int, int]
"""Width and height in pixels."""


def fitting(size: Size, limit: Size) -> Size:
    """Return the largest size of the same proportions within a limit."""
    factor = min(limit[0] / size[0], limit[1] / size[1])
    return max(1, int(size[0] * factor)), max(1, int(size[1] * factor))


def scaled_sentence(size: Size, shown: Size, limit: Size) -> str:
    """Return what to say before a picture of `size` that is shown as `shown` to be within `limit`."""
    factor = min(limit[0] / size[0], limit[1] / size[1])
    return (
        f"The next image was scaled from {size[0]} x {size[1]} to {shown[0]} x {shown[1]} pixels: multiply "
        f"coordinates seen in it by {1 / factor:.4g}."
    )
