"""Code of one cell -> what it did.

Flows in: a cell's code. Flows out: nothing but messages, and whether it failed. Decided here: how a cell is compiled
and run. Plain Python goes straight to the compiler; only what Python refuses is read as IPython's dialect (`!ls`,
`%magic`). The whole cell is compiled before any of it runs. Its last expression is evaluated apart and shown.
"""

from __future__ import annotations

import ast
import inspect
import io
import os
import subprocess
import sys
import tokenize
from types import CodeType
from typing import Any, ClassVar

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.compilerop import CachingCompiler
from IPython.core.interactiveshell import ExecutionResult
from IPython.utils.text import SList
from traitlets import Any as AnyTrait
from traitlets import Dict, Instance, Type

from cellwright_kernel.python import errors
from cellwright_kernel.python.asyncio_run import driven
from cellwright_kernel.python.display import PlainFormatter, Publisher, Show
from cellwright_kernel.python.headroom import Headroom
from cellwright_kernel.python.result_hook import ResultHook

_COMPILE = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_SILENT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.DEDENT, tokenize.ENDMARKER})
_NOT_AWAITED = "[a coroutine that was not awaited: nothing of it ran. Put `await` before it.]"


class CellCompiler(CachingCompiler):  # type: ignore[misc]
    """Names code after its cell, so that tracebacks and `linecache` know it."""

    cell_name = "<cell 0>"

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """`<cell N>`."""
        del raw_code, transformed_code, number
        return self.cell_name


class CellShell(ZMQInteractiveShell):  # type: ignore[misc]
    """IPython's shell for its dialect and its extensions' sake; running a cell is our own."""

    compiler_class = Type(CellCompiler)
    displayhook_class = Type(ResultHook)
    display_pub_class = Type(Publisher)
    show: Show = AnyTrait()
    db: ClassVar[dict[str, Any]] = {}  # what magics such as %cd remember; IPython keeps it in the home
    given: dict[str, Any] = Dict()
    """What the namespace holds from the start, and again after `%reset`."""
    headroom: Headroom = Instance(Headroom, ())
    """What a cell that got no more memory leaves to the kernel."""
    is_showing = False
    """True while, and if it failed after, the last expression's value is shown."""

    # What IPython sets up for a person at a terminal and a cell does not need.

    def init_ipython_dir(self, ipython_dir: object) -> None:
        """Nothing is read from or written to the home."""

    def init_profile_dir(self, profile_dir: object) -> None:
        """As above."""

    def init_environment(self) -> None:
        """Children are told that their output is read by a program."""
        os.environ.update(TERM="dumb", PAGER="cat", GIT_PAGER="cat", NO_COLOR="1", PYTHONUNBUFFERED="1")

    def init_completer(self) -> None:
        """Nobody presses Tab; saves the completer's imports (60 ms with jedi)."""
        self.Completer = None

    def init_display_formatter(self) -> None:
        """One form per value."""
        self.display_formatter = PlainFormatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_pdb(self) -> None:
        """There is no debugger to enter."""
        self._call_pdb = False

    def init_builtins(self) -> None:
        """As IPython's, but `display` is ours and comes with the namespace."""
        super().init_builtins()

    def init_user_ns(self) -> None:
        """Little: `In`, `Out` and the rest would keep every value alive. Also called by `%reset`."""
        self.user_ns.update(self.given, get_ipython=self.get_ipython, _dh=self.history_manager.dir_hist)  # _dh: for %cd
        self.user_ns_hidden.update(self.user_ns)  # %who names what the model has defined

    def reset(self, *args: Any, **options: Any) -> None:
        """`%reset`, and at the start."""
        super().reset(*args, **options)
        self.last_execution_result = ExecutionResult(None)  # %xdel looks into it

    def init_displayhook(self) -> None:
        """As IPython's, without its names for the last three values."""
        super().init_displayhook()
        for name in ("_", "__", "___", "__builtin__"):
            self.user_ns.pop(name, None)

    def payloadpage_page(self, strg: Any, start: int = 0, screen_lines: int = 0, pager_cmd: Any = None) -> None:
        """`name?` and the like: there is no pager, so it is printed."""
        del start, screen_lines, pager_cmd
        text = strg.get("text/plain", "") if isinstance(strg, dict) else str(strg)
        sys.stdout.write(text.rstrip("\n") + "\n")

    def set_parent(self, parent: dict[str, Any]) -> None:
        """Each message finds its parent by its origin."""
        self.parent_header = parent

    # Running a cell.

    async def run_code_of_cell(self, code: str, name: str, tree: ast.Module | None) -> None:
        """Run a cell to its end; what it shows goes out on the way. Raises what the cell raises.

        Args:
            code: As the model wrote it.
            name: `<cell N>`.
            tree: Its syntax tree if it is plain Python, else None: then IPython's dialect is tried.
        """
        self.is_showing = False
        body, last = self._compiled(code, name, tree)
        if body is not None:
            await self._evaluate(body)
        value = await self._evaluate(last) if last is not None else None
        if value is not None and not _is_silenced(code):
            self.is_showing = True
            self._show_value(value)
            self.is_showing = False

    def parsed(self, code: str, name: str) -> ast.Module | None:
        """The syntax tree of a cell that is plain Python; None for anything else."""
        try:
            return self.compile.ast_parse(code, filename=name)  # type: ignore[no-any-return]
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
            return None

    def _compiled(self, code: str, name: str, tree: ast.Module | None) -> tuple[CodeType | None, CodeType | None]:
        """The statements, and the last expression if there is one."""
        self.compile.cell_name = name
        if tree is None:
            code = self._transformed(code, name)
            self.compile.cache(code)
            with self.compile.extra_flags(_COMPILE):
                tree = self.compile.ast_parse(code, filename=name)
        else:
            self.compile.cache(code)
        tree = self.transform_ast(tree)
        last = tree.body[-1].value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if last is not None:
            tree.body.pop()
        with self.compile.extra_flags(_COMPILE):
            statements = self.compile(tree, name, "exec") if tree.body else None
            expression = self.compile(ast.Expression(last), name, "eval") if last is not None else None
        return statements, expression

    def _transformed(self, code: str, name: str) -> str:
        """A cell with magics as plain Python."""
        try:
            return self.input_transformer_manager.transform_cell(code)  # type: ignore[no-any-return]
        except SyntaxError as error:  # from Python 3.12 on the tokenizer raises it, and knows no file
            error.filename = name
            raise

    async def _evaluate(self, code: CodeType) -> Any:
        return await driven(self._evaluated(code))

    async def _evaluated(self, code: CodeType) -> Any:
        headroom = self.headroom
        try:
            value = eval(code, self.user_global_ns, self.user_ns)  # noqa: S307 - this is what the sandbox is for
            return await value if code.co_flags & inspect.CO_COROUTINE else value
        except MemoryError:
            headroom.ballast = None  # at once: to end the coroutine takes memory already
            headroom.open()
            raise

    def _show_value(self, value: Any) -> None:
        if inspect.iscoroutine(value):
            self.show.result_text(f"{value!r}\n{_NOT_AWAITED}")
            return
        self.user_ns["_"] = value
        self.show.result(value)

    # IPython's own ways to a shell, without a terminal.

    def system(self, cmd: str) -> None:
        """`!cmd`: its output goes where the cell's goes, and an exit status other than 0 is said."""
        status = subprocess.run(self._expanded(cmd), shell=True, executable="/bin/bash", check=False).returncode  # noqa: S602
        self.user_ns["_exit_code"] = status
        if status:
            sys.stderr.write(
                f"[exit status {status}: {cmd}]\n" if status > 0 else f"[ended by signal {-status}: {cmd}]\n"
            )

    system_piped = system_raw = system

    def getoutput(self, cmd: str, split: bool = True, depth: int = 0) -> Any:  # noqa: ARG002
        """`x = !cmd`: the output's lines; an exit status other than 0 is said."""
        done = subprocess.run(  # noqa: S602
            self._expanded(cmd),
            shell=True,
            executable="/bin/bash",
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.user_ns["_exit_code"] = done.returncode
        if done.returncode:
            sys.stderr.write(f"[exit status {done.returncode}: {cmd}]\n")
        return SList(done.stdout.splitlines()) if split else done.stdout

    def _expanded(self, cmd: str) -> str:
        return str(self.var_expand(cmd, depth=2))

    # Errors that IPython reports itself, from within magics.

    def showtraceback(self, exc_tuple: Any = None, *_args: Any, **_options: Any) -> None:
        """Told on stderr, in the form of our errors."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            sys.stderr.write("\n".join(errors.describe(error).lines) + "\n")

    def showsyntaxerror(self, filename: str | None = None, running_compiled_code: bool = False) -> None:
        """As above."""
        del filename, running_compiled_code
        self.showtraceback()

    def ask_exit(self) -> None:
        """A cell does not end the kernel."""
        raise SystemExit

    def enable_gui(self, gui: object = None) -> None:
        """The kernel's loop stays asyncio's; a GUI program belongs in a process of its own."""


def _is_silenced(code: str) -> bool:
    """Whether it ends in a semicolon, as in `plt.plot(x);`, with or without a comment after it."""
    if ";" not in code.rstrip().rpartition("\n")[2]:
        return False
    try:
        tokens = [token for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type not in _SILENT]
    except (tokenize.TokenError, SyntaxError):  # IPython's dialect
        return code.rstrip().endswith(";")
    return bool(tokens) and tokens[-1].string == ";"
