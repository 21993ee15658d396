"""The filter of system calls that the kernel host takes on before it does anything, where whoever made the sandbox left that to it.

Flows in: a file with the filter as BPF, made outside. Flows out: a process that it holds for, and all that it starts. Decided
here: without it nothing starts. An OCI engine reads filters as JSON, which has no word for calls younger than the engine's
libseccomp; this has, and is the same one to the byte that bubblewrap is given.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_MODE_FILTER: Final = 2
_INSTRUCTION_BYTES: Final = 8


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def take_on(file: str) -> None:
    """Have a filter hold for this process from here on; there is no way back.

    Args:
        file: With the filter as BPF.

    Raises:
        OSError: It could not be read, or the Linux kernel did not take it.
    """
    instructions = Path(file).read_bytes()
    program = _Program(len(instructions) // _INSTRUCTION_BYTES, instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())}: prctl(PR_SET_SECCOMP)")
