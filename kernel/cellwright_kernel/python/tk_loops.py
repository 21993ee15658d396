"""A cell's own Tk window: its `mainloop()` can be interrupted.

Flows in: `tkinter`, when a cell imports it. Flows out: nothing. Decided here: while a main loop runs in the main
thread, Tcl has something to do twenty times a second. Otherwise it waits for an event of the window in C, where no
interrupt is noticed, and the kernel would have to be killed with all its variables. The timer is Tcl's, since an
interrupt inside a callback of Python would be reported by tkinter and forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from cellwright_kernel.python.after_import import AfterImport

_BEGIN: Final = "proc cellwright_tick {} {set ::cellwright_timer [after 50 cellwright_tick]}; cellwright_tick"
_END: Final = "after cancel $::cellwright_timer"


def let_interrupts_through(after_import: AfterImport) -> None:
    """Have it so for every window that a cell makes with tkinter."""
    after_import.do("tkinter", _with_ticks)


def _with_ticks(tkinter: ModuleType) -> None:
    module: Any = tkinter
    loop: Callable[[Any, int], None] = module.Misc.mainloop

    def mainloop(self: Any, n: int = 0) -> None:
        """Call the mainloop of Tk."""
        if threading.current_thread() is not threading.main_thread():
            loop(self, n)
            return
        self.tk.eval(_BEGIN)
        try:
            loop(self, n)
        finally:
            _stop(self, module.TclError)

    def default_mainloop(n: int = 0) -> None:
        """Run the main loop of Tcl."""
        module._get_default_root("run the main loop").mainloop(n)

    module.Misc.mainloop, module.mainloop = mainloop, default_mainloop


def _stop(window: Any, gone: type[Exception]) -> None:
    try:
        window.tk.eval(_END)
    except gone:  # the window was destroyed, and its Tcl with it
        return
