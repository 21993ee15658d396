"""Whether the X server at the other end of a connection has gone.

Flows in: an open python-xlib `Display`. Flows out: yes or no, in some microseconds and without asking the server.
Decided here: nothing.

A connection is kept from one cell to the next, and its server may have ended and been started again in between. Nobody
tells: what was sent last would fail, though the new server answers.
"""

from __future__ import annotations

import select

from Xlib.display import Display


def has_hung_up(display: Display) -> bool:
    """Return whether the server has closed the connection."""
    poll = select.poll()
    poll.register(display.fileno(), 0)  # the end is told of unasked
    return bool(poll.poll(0))
