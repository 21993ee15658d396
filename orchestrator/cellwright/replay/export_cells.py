"""A cell's Python as a function that does the same.

Flows in: a cell's code. Flows out: the body of an `async def`, with its variables declared global and its last value shown;
None where that cannot be said so. Decided here: what may stand in a function is what Python itself says; and that the result is
read again and must have the same syntax tree, so that no text between quotes is changed by its new margin.
"""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterator
from typing import Final

from cellwright_kernel.wire import CODE_BYTES

_HEAD: Final = "async def cell():"
_MARGIN: Final = "    "
_OTHER_ENDS: Final = "\r\f\v\0"
"""Python counts lines by other marks than people do."""
_SILENT_CALLS: Final = frozenset({"display", "log", "print"})
"""What gives no value."""
_SHOW: Final = "_cw.show(("


def as_body(code: str) -> list[str] | None:
    """Return the lines of the function's body; None when it has to stay a text."""
    if len(code) > CODE_BYTES or any(mark in code for mark in _OTHER_ENDS):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `"\\d"`, say: whoever runs it is warned
            return _body(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, UnicodeError):
        return None


def _body(code: str) -> list[str] | None:
    tree = ast.parse(code)
    compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)  # `return` stays an error
    lines = _indented(_showing_last(code, tree), tree) if code.strip() else []
    names = _assigned(lines)
    body = [*([f"{_MARGIN}global {', '.join(names)}"] if names else []), *lines]
    body = body if tree.body else [*body, f"{_MARGIN}pass"]
    whole = "\n".join([_HEAD, *body])
    compile(whole, "<cell>", "exec", dont_inherit=True)
    return body if _is_same(ast.parse(whole).body[0], tree, has_global=len(names) > 0) else None


def _showing_last(code: str, tree: ast.Module) -> str:
    """The code with its last expression shown, as a notebook does."""
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or _is_silent(last, code):
        return code
    lines = code.encode().split(b"\n")
    first_row, last_row = last.value.lineno - 1, (last.value.end_lineno or 0) - 1
    start, end = last.value.col_offset, last.value.end_col_offset or 0
    lines[last_row] = lines[last_row][:end] + b"))" + lines[last_row][end:]
    lines[first_row] = lines[first_row][:start] + _SHOW.encode() + lines[first_row][start:]
    return b"\n".join(lines).decode()


def _is_silent(last: ast.Expr, code: str) -> bool:
    if (
        isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Name)
        and last.value.func.id in _SILENT_CALLS
    ):
        return True
    return code.rstrip().endswith(";")


def _indented(code: str, tree: ast.Module) -> list[str]:
    """The lines with a margin, but for those that begin inside a text."""
    inside = set(_rows_inside_texts(tree))
    return [
        line if row in inside or not line.strip() else f"{_MARGIN}{line}"
        for row, line in enumerate(code.rstrip("\n").split("\n"), 1)
    ]


def _rows_inside_texts(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        if (is_text or isinstance(node, ast.JoinedStr)) and isinstance(node, ast.expr):
            yield from range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)


def _assigned(lines: list[str]) -> list[str]:
    """The names that the cell gives a meaning."""
    whole = symtable.symtable("\n".join([_HEAD, *lines, f"{_MARGIN}pass"]), "<cell>", "exec")
    (cell,) = whole.get_children()
    return sorted(symbol.get_name() for symbol in cell.get_symbols() if symbol.is_local() and _is_name(symbol))


def _is_name(symbol: symtable.Symbol) -> bool:
    return symbol.get_name().isidentifier()


def _is_same(function: ast.stmt, tree: ast.Module, *, has_global: bool) -> bool:
    if not isinstance(function, ast.AsyncFunctionDef):
        return False
    body = function.body[1:] if has_global else function.body
    if not tree.body:
        return True
    *rest, last = body
    if ast.dump(last) != ast.dump(tree.body[-1]):
        shown = last.value if isinstance(last, ast.Expr) else None
        old = tree.body[-1]
        if not (
            isinstance(shown, ast.Call) and isinstance(old, ast.Expr) and ast.dump(shown.args[0]) == ast.dump(old.value)
        ):
            return False
    return [*map(ast.dump, rest)] == [*map(ast.dump, tree.body[:-1])]
