"""`clipboard` as the Python kernel offers it, and pyperclip on the same way.

Flows in: pyperclip, when a cell imports it. Flows out: its `copy` and `paste`, done without a helper process: the xclip
that it would start is ended with the cell's other processes, and the text with it. Decided here: what pyperclip
documents stays so: numbers are copied as their text, and what is no text pastes as an empty one.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from cellwright_kernel.clipboard.clipboard import WHERE, Clipboard
from cellwright_kernel.clipboard.errors import ClipboardError
from cellwright_kernel.python.after_import import AfterImport


def prepare_pyperclip(after_import: AfterImport) -> None:
    """Have pyperclip use the desktop's clipboard, if there is a desktop."""
    if WHERE in os.environ:
        after_import.do("pyperclip", _on_our_way)


def _on_our_way(pyperclip: ModuleType) -> None:
    module: Any = pyperclip
    clipboard = Clipboard()

    def copy(text: Any, primary: bool = False) -> None:
        if not isinstance(text, str | int | float | bool):
            raise module.PyperclipException(
                f"only str, int, float, and bool values can be copied to the clipboard, not {type(text).__name__}"
            )
        try:
            clipboard.write(str(text), primary=primary)
        except ClipboardError as error:
            raise module.PyperclipException(str(error)) from None

    def paste(primary: bool = False) -> str:
        try:
            return clipboard.read(primary=primary)
        except ClipboardError as error:
            if error.is_no_text:
                return ""
            raise module.PyperclipException(str(error)) from None

    module.copy, module.paste = copy, paste
    module.determine_clipboard = lambda: (copy, paste)
