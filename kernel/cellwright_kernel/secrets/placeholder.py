"""What stands for a secret in a header, inside.

Flows in: nothing. Flows out: how every placeholder begins. Decided here: that, for both sides: the outside makes them and the
inside knows them by it. It stands apart from the values on the wire because the kernels need it, and importing those takes
100 ms.
"""

from __future__ import annotations

from typing import Final

PLACEHOLDER: Final = "CellwrightSecret_"
"""Letters and an underscore, which no encoding changes."""
