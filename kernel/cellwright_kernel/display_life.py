"""Does the X server answer? One that was stopped, or hangs, lets everybody wait without end.

Flows in: a display's name. Flows out: yes or no, within a bound. Decided here: what is asked, namely a new connection's
first answer, which a sound server gives in 0.2 ms whatever windows are open; and that no thread waits for it, since nothing
would end that wait. A refusal is an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Final

_BEGINNING: Final = b"l\0" if sys.byteorder == "little" else b"B\0"
_HELLO: Final = _BEGINNING + (11).to_bytes(2, sys.byteorder) + bytes(8)
"""The protocol's first message: byte order, version 11.0, no authorization."""


async def answers(display: str, within_s: float) -> bool:
    """Return whether the server says anything to a new client, or has gone; False: it is there and keeps silent.

    Args:
        display: Such as `:7`; on this machine.
        within_s: The end of the wait.
    """
    writer = None
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_unix_connection(f"/tmp/.X11-unix/X{display.lstrip(':')}")  # noqa: S108 - X's own
            writer.write(_HELLO)
            await reader.read(1)
    except TimeoutError:
        return False
    except OSError:  # nobody listens: that it has ended is noticed by who waits for its process
        return True
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(within_s):
                    await writer.wait_closed()
    return True
