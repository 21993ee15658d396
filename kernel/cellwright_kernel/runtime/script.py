"""An exported run as a plain script: its cells, one after the other, in one event loop.

    _cw = Script(globals(), "browser")

    @_cw.cell
    async def _cell_1():
        global rows
        rows = [3, 4, 5]

    _cw.javascript('console.log(await page.title())')

    if __name__ == "__main__":
        _cw.run()

Flows in: the script's variables and its cells, as functions or as text. Flows out: what they do; exit status 1 if a cell fails
that had not failed in the run. Decided here: all cells share the script's global variables; pictures are written into a folder
beside it; and what a cell left open is shown at its end, as in a sandbox.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cellwright_kernel
from cellwright_kernel.python.asyncio_run import driven
from cellwright_kernel.python.namespace import release_keys
from cellwright_kernel.runtime.params import from_command_line
from cellwright_kernel.runtime.prepare import Prepared, checked, the_prepared, write_files
from cellwright_kernel.runtime.show import PlainShow

_Cell = Callable[[], Awaitable[object]]
_OURS: Final = Path(cellwright_kernel.__file__).parent
_MAY_AWAIT: Final = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


_AGAIN_S: Final = 0.5
"""A signal that comes while the loop turns ends nothing; the next one may."""


@dataclass(frozen=True, slots=True)
class _Step:
    cell: _Cell
    code: str
    may_fail: bool
    limit_s: float | None
    """Absent: it ends by itself."""


class Script:
    """The cells of one script.

    Args:
        variables: `globals()`.
        needs: As for `prepare`.
        files: As for `prepare`.
        params: As for `prepare`; the command line may give them other values, by `--set NAME=VALUE`.

    Raises:
        ValueError: As `prepare` does.
    """

    def __init__(
        self,
        variables: dict[str, Any],
        *needs: str,
        files: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        self._variables = variables
        self._needs = checked(needs)
        self._files = files or {}
        self._params = params or {}
        self._cells: list[_Step] = []
        here = Path(str(variables.get("__file__", "script.py")))
        self._show = PlainShow(Path.cwd() / f"{here.stem}-pictures")

    def cell(self, function: _Cell | None = None, *, may_fail: bool = False, limit_s: float | None = None) -> Any:
        """Take a function as the next cell.

        Args:
            function: Does what the cell does.
            may_fail: It failed in the run, too, so that the next one follows all the same.
            limit_s: Seconds after which it is ended, as it was in the run.
        """
        if function is None:
            return lambda given: self.cell(given, may_fail=may_fail, limit_s=limit_s)
        self._cells.append(_Step(function, " ".join(function.__code__.co_names), may_fail, limit_s))
        return function

    def ipython(self, code: str, *, may_fail: bool = False, limit_s: float | None = None) -> None:
        """Take code as the next cell that is no plain Python, or cannot stand in a function."""
        own, name = _own(code), f"<cell {len(self._cells) + 1}>"
        self._cells.append(_Step(lambda: self._run_text(own, name), own, may_fail, limit_s))

    def javascript(self, code: str, *, may_fail: bool = False, limit_s: float | None = None) -> None:
        """Take JavaScript as the next cell."""
        own = _own(code)
        self._cells.append(_Step(lambda: the_prepared().javascript.run(own), "", may_fail, limit_s))

    def show(self, value: object) -> None:
        """Show the value of a cell's last expression."""
        self._show.show(value)

    def run(self) -> None:
        """Run all cells; ends the process with status 1 at the first that fails and had not."""
        if self._params:
            self._params = from_command_line(self._params, sys.argv[1:])
        write_files(self._files)
        prepared = the_prepared(self._show)
        try:
            asyncio.run(self._run(prepared))
        finally:
            prepared.close()

    async def _run(self, prepared: Prepared) -> None:
        await prepared.define(self._variables, self._needs, self._params)
        for step in self._cells:
            await prepared.refresh(step.code)
            try:
                await _within(step.limit_s, driven(_awaiting(step.cell)))
                prepared.figures.after_cell()
            except (Exception, asyncio.CancelledError) as error:
                release_keys()
                _tell(error)
                if not step.may_fail:
                    sys.exit(1)

    async def _run_text(self, code: str, name: str) -> None:
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        tree = ast.parse(_transformed(code, self._variables), name)
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        tree.body = tree.body if last is None else tree.body[:-1]
        await self._evaluated(compile(tree, name, "exec", _MAY_AWAIT))
        if last is not None:
            self.show(await self._evaluated(compile(ast.Expression(last), name, "eval", _MAY_AWAIT)))

    async def _evaluated(self, code: Any) -> Any:
        value = eval(code, self._variables)  # noqa: S307 - this is what the script is for
        return await value if code.co_flags & inspect.CO_COROUTINE else value


def _tell(error: BaseException) -> None:
    """Print an error with its lines of the cell; how the cell was called says nothing."""
    where = error.__traceback__
    while where is not None and Path(where.tb_frame.f_code.co_filename).is_relative_to(_OURS):
        where = where.tb_next
    traceback.print_exception(error.with_traceback(where))


def _own(code: str) -> str:
    """The cell's own code, without the line breaks by which it stands apart in a script."""
    return code.removeprefix("\n").removesuffix("\n")


async def _within(limit_s: float | None, cell: Awaitable[object]) -> None:
    """Run a cell, and end it after so long: where it waits, the loop does it, and where it computes, a signal."""
    if limit_s is None:
        await cell
        return
    task = asyncio.current_task()

    def end(*_: object) -> None:
        if asyncio.current_task() is task:
            raise TimeoutError(f"The cell was ended after {limit_s:g} s, as in the run.")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
    try:
        async with asyncio.timeout(limit_s):
            await cell
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def _awaiting(cell: _Cell) -> None:
    await cell()


def _transformed(code: str, variables: dict[str, Any]) -> str:
    """Code in IPython's dialect as plain Python; what it calls is there afterwards."""
    try:
        ast.parse(code)
    except SyntaxError:
        from IPython.core.interactiveshell import InteractiveShell  # noqa: PLC0415 - heavy, and few cells need it
        from traitlets.config import Config  # noqa: PLC0415 - as above

        nothing_kept = Config(HistoryManager={"enabled": False, "hist_file": ":memory:"})
        shell = InteractiveShell.instance(config=nothing_kept, user_ns=variables)
        variables["get_ipython"] = shell.get_ipython
        return str(shell.transform_cell(code))
    return code
