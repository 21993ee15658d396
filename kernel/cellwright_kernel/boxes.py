"""Boxes on the screen.

Flows in: boxes. Flows out: what they have in common, and what holds them all. Decided here: a box is left, top, width,
height, in pixels of the screenshot.
"""

from __future__ import annotations

from collections.abc import Iterable

Box = tuple[int, int, int, int]


def overlap(one: Box | None, other: Box | None) -> Box | None:
    """Return what two boxes have in common; None when that is nothing."""
    if one is None or other is None:
        return None
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return (left, top, right - left, bottom - top) if right > left and bottom > top else None


def around(boxes: Iterable[Box]) -> Box:
    """Return the smallest box that holds them all; there must be one."""
    edges = [(left, top, left + width, top + height) for left, top, width, height in boxes]
    lefts, tops, rights, bottoms = zip(*edges, strict=True)
    left, top = min(lefts), min(tops)
    return left, top, max(rights) - left, max(bottoms) - top


def grown(box: Box, margin: int) -> Box:
    """Return a box that reaches further by a margin on each side."""
    left, top, width, height = box
    return left - margin, top - margin, width + 2 * margin, height + 2 * margin
