"""`os.system` that an interrupt ends.

Flows in: a command. Flows out: its wait status, as always. Decided here: C's `system` has its process ignore interrupts while
it waits, which suits a program at a terminal, whose user presses the keys again. Here a loop of commands swallowed every
interrupt, and its kernel had to be killed, with all variables.
"""

from __future__ import annotations

import os
import subprocess


def let_interrupts_end_commands() -> None:
    """Put ours in the place of Python's."""

    def system(command: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> int:
        """Execute the command in a subshell."""
        # like C's: what this process inherited or made inheritable, the command inherits
        code = subprocess.call(os.fsdecode(command), shell=True, close_fds=False)  # noqa: S602 - that is what it is for
        return -code if code < 0 else code << 8

    os.system = system
