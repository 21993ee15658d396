"""Literals of a run's cells, made parameters when it is exported.

Flows in: a `Run`, and by name the literals that are to be parameters. Flows out: the same run with `params["NAME"]` in their place,
and where that was. Decided here: a literal is lifted where Python itself says that it is one, and equals the text, or is the
number that the text says; not inside an f-string or a pattern of `match`, where it cannot be replaced by an expression in every
Python, and not where it documents a function; and a cell must mean the same but for that, by its syntax tree. JavaScript, and
IPython's dialect, are not lifted: there is no parser for them on the outside.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from cellwright.counted import counted
from cellwright.errors import UsageError
from cellwright.plain import plain
from cellwright.record import Run
from cellwright.record.records import CellOpened
from cellwright.replay.set_values import stands_in, values_of
from cellwright_kernel.wire import CODE_BYTES

_OTHER_ENDS: Final = "\r\f\v\0"
"""Python counts lines by other marks than people do."""
_PARAM: Final = re.compile(r"\bparams\[[^\]\n]*\]")
_GIVEN: Final = re.compile(r"^\s*params\s*=(?!=)|\bas\s+params\b", re.MULTILINE)
"""What gives `params` a meaning in code that cannot be parsed."""
_DOCUMENTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Lifted:
    """What came of it."""

    run: Run
    """With other code, and with the parameters."""
    counts: Mapping[str, Mapping[int, int]]
    """Name -> number of a cell -> how many of its literals were lifted."""
    left: tuple[int, ...]
    """Cells in which one of the texts stands where it was not lifted."""

    def words(self, name: str) -> str:
        """Return what became of one parameter, as a sentence."""
        cells = self.counts[name]
        where = ", ".join(f"{count} in cell {number}" for number, count in cells.items())
        return f"{name}: {counted(sum(cells.values()), 'literal')} lifted, {where}."


def lift(run: Run, literals: Mapping[str, str]) -> Lifted:
    """Make literals of the cells parameters.

    Args:
        run: The run.
        literals: The literals by name of the parameter; a text, or a number as Python writes it.

    Raises:
        UsageError: A literal stands nowhere, its name is a parameter of another value, or a cell has another meaning for `params`.
    """
    known = values_of(run)
    for name, literal in literals.items():
        if known.get(name, literal) != literal:
            raise UsageError(
                f"--lift {name}: the run has this parameter, with another value. Nothing was written. Choose another name."
            )
    cells = {cell.opened.number: cell.opened for cell in run.stored_cells}
    lifted = {number: _lifted(opened.code, literals) for number, opened in cells.items() if opened.language == "python"}
    codes = {number: opened.code for number, opened in cells.items()} | {
        number: code for number, (code, _) in lifted.items()
    }
    counts = {
        name: {number: names.count(name) for number, (_, names) in lifted.items() if name in names} for name in literals
    }
    for name, in_cells in counts.items():
        if not in_cells:
            raise UsageError(
                f"--lift {name}: no Python cell has the literal {plain(literals[name][:80])!r}, where it could be lifted. Nothing "
                "was written. Inside f-strings and longer texts, in JavaScript and in IPython's dialect, none is."
            )
    _refuse_other_params({number: codes[number] for number in lifted})
    left = tuple(number for number, code in codes.items() if _still_has(code, literals))
    return Lifted(_with(run, codes, {**known, **literals}), counts, left)


def _refuse_other_params(codes: Mapping[int, str]) -> None:
    for number, code in codes.items():
        tree = _parsed(code)
        if _GIVEN.search(code) if tree is None else any(map(_gives_params_a_meaning, ast.walk(tree))):
            raise UsageError(
                f"Cell {number} gives `params` a meaning of its own. Nothing was written, and nothing can be lifted."
            )


def _gives_params_a_meaning(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="params", ctx=ast.Store() | ast.Del()) | ast.arg(arg="params"):
            return True
        case ast.FunctionDef(name="params") | ast.AsyncFunctionDef(name="params") | ast.ClassDef(name="params"):
            return True
        case ast.alias(name=name, asname=other):
            return (other or name.partition(".")[0]) == "params"
        case ast.ExceptHandler(name="params") | ast.MatchAs(name="params") | ast.MatchStar(name="params"):
            return True
        case ast.MatchMapping(rest="params"):
            return True
        case _:
            return False


def _still_has(code: str, literals: Mapping[str, str]) -> bool:
    rest = _PARAM.sub("", code)
    return any(stands_in(rest, literal) for literal in literals.values())


def _with(run: Run, codes: Mapping[int, str], params: Mapping[str, str]) -> Run:
    lines = tuple(
        replace(line, record=line.record.model_copy(update={"code": codes[line.record.number]}))
        if isinstance(line.record, CellOpened) and line.record.number in codes
        else line
        for line in run.lines
    )
    info = run.info.model_copy(update={"spec": {**run.info.spec, "params": dict(params)}})
    return replace(run, info=info, lines=lines)


def _lifted(code: str, literals: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return one cell's code, and of each that was lifted the name; as it was, where it is no plain Python."""
    tree = _parsed(code)
    if tree is None:
        return code, []
    finding = _Finding(literals, tree)
    try:
        wanted = ast.dump(finding.visit(tree))
        new = _replaced(code, finding.found)
        again = _parsed(new)
        is_same = again is not None and ast.dump(again) == wanted
    except (RecursionError, ValueError):  # nested deeply, or a number that is too long to be written
        return code, []
    return (new, [one.name for one in finding.found]) if is_same else (code, [])


def _parsed(code: str) -> ast.Module | None:
    if len(code) > 2 * CODE_BYTES or any(mark in code for mark in _OTHER_ENDS):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of `"\\d"`, say: whoever runs it is warned
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError, UnicodeError):
        return None


@dataclass(frozen=True)
class _Found:
    name: str
    node: ast.Constant
    by: str
    """The expression in its place."""


class _Finding(ast.NodeTransformer):
    """Puts parameters in the place of literals in a tree, and keeps where they stood."""

    def __init__(self, literals: Mapping[str, str], tree: ast.Module) -> None:
        self._literals = literals
        self._documenting = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, _DOCUMENTED) and isinstance(node.body[0], ast.Expr)
        }
        self.found: list[_Found] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.JoinedStr | ast.pattern) or id(node) in self._documenting:
            return node
        return self._constant(node) if isinstance(node, ast.Constant) else self.generic_visit(node)

    def _constant(self, node: ast.Constant) -> ast.AST:
        for name, literal in self._literals.items():
            by = _in_place_of(node.value, name, literal)
            if by is not None:
                self.found.append(_Found(name, node, by))
                return ast.parse(by, mode="eval").body
        return node


def _in_place_of(value: object, name: str, literal: str) -> str | None:
    """Return what takes a value's place; None where the literal is another."""
    if isinstance(value, str):
        return f'params["{name}"]' if value == literal else None
    kind = int if type(value) is int else float
    if type(value) is not kind:
        return None
    try:
        number, will_be = ast.literal_eval(literal), kind(literal)  # `0x10` is a number, and int() does not read it
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if type(number) is not kind or not number == will_be == value:
        return None
    return f'{kind.__name__}(params["{name}"])'


def _replaced(code: str, found: list[_Found]) -> str:
    data = code.encode()
    begins = [0, *accumulate(len(line) + 1 for line in data.split(b"\n"))]
    pieces, end = [], 0
    for one in sorted(found, key=lambda one: (one.node.lineno, one.node.col_offset)):
        pieces += [data[end : begins[one.node.lineno - 1] + one.node.col_offset], one.by.encode()]
        end = begins[(one.node.end_lineno or 0) - 1] + (one.node.end_col_offset or 0)
    return b"".join([*pieces, data[end:]]).decode()
