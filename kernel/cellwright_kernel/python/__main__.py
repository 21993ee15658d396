"""`python -m cellwright_kernel.python -f CONNECTION`: one Python kernel.

Flows in: a Jupyter connection file. Flows out: a kernel on its sockets, until a shutdown_request or the end of its
process. Decided here: what of ipykernel's application is used, namely its sockets, control thread and event loop; not its
configuration, profiles, start-up files, history, debugger, subshells and banner. stdin is empty for all.
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import getpass
import logging
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, NoReturn

import zmq
from ipykernel.control import ControlThread
from ipykernel.kernelapp import IPKernelApp
from traitlets.config import Config
from zmq.eventloop.zmqstream import ZMQStream

from cellwright_kernel.iopub import Gate, Iopub
from cellwright_kernel.python import errors, origin
from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.python.background import Background
from cellwright_kernel.python.browser import BrowserLink
from cellwright_kernel.python.clipboard import prepare_pyperclip
from cellwright_kernel.python.display import Show
from cellwright_kernel.python.figures import Figures
from cellwright_kernel.python.forked import have_children_go_first, have_grandchildren_give_way, leave
from cellwright_kernel.python.interrupts import Interrupts
from cellwright_kernel.python.kernel import CellKernel
from cellwright_kernel.python.last_pipes import NAME, PipesGiver
from cellwright_kernel.python.last_words import LastWordsBox
from cellwright_kernel.python.namespace import Namespace, prepare_pyautogui
from cellwright_kernel.python.os_system import let_interrupts_into_system
from cellwright_kernel.python.page_pictures import prepare_pictures
from cellwright_kernel.python.progress_bars import prefer_plain_bars
from cellwright_kernel.python.secrets import prepare_secrets
from cellwright_kernel.python.spawned import prepare_spawn
from cellwright_kernel.python.streams import Writer
from cellwright_kernel.python.text_stream import TextStream
from cellwright_kernel.python.tk_loops import let_interrupts_through
from cellwright_kernel.repeatable import seed_python
from cellwright_kernel.shell_channel import ShellChannel

_NO_INPUT = "{}() has nobody to answer it: this session has no standard input. Put the value into the code instead."
_LAST_MESSAGES_MS = 200


class CellKernelApp(IPKernelApp):  # type: ignore[misc]
    """ipykernel's application, less what a person at a notebook needs."""

    kernel: CellKernel
    control_port: int
    iopub_port: int

    def initialize(self, argv: list[str] | None = None) -> None:
        """Make the sockets, the streams and the kernel."""
        self.connection_file = argv[0] if argv else ""
        self._empty_stdin()
        self.init_connection_file()
        self.init_sockets()
        self.init_heartbeat()
        self.write_connection_file()
        self._init_streams()
        self.init_kernel()
        self.shell = self.kernel.shell
        self.shell.configurables.append(self)
        self._init_cells()

    def init_control(self, context: zmq.Context[Any]) -> None:
        """The control channel alone: no sockets for a debugger, no thread in front of the shell channel."""
        self.control_socket = context.socket(zmq.ROUTER)
        self.control_socket.linger = 1000
        self.control_port = self._bind_socket(self.control_socket, self.control_port)
        self.control_socket.router_handover = 1
        self.control_thread = ControlThread(daemon=True)

    def init_iopub(self, context: zmq.Context[Any]) -> None:
        """No thread, and no message is dropped when the reader is slow: what a cell may send is bounded elsewhere.

        A ZeroMQ context of its own, so that at the end one can wait until its messages have left, and for nothing else.
        """
        del context
        socket = zmq.Context().socket(zmq.XPUB)
        socket.linger = 1000
        socket.sndhwm = 0
        self.iopub_port = self._bind_socket(socket, self.iopub_port)
        self.iopub_socket = Iopub(socket, self.session, Gate())

    def init_kernel(self) -> None:
        """The kernel reads the shell socket itself."""
        self.control_thread.start()
        self.kernel = CellKernel.instance(
            parent=self,
            session=self.session,
            control_stream=ZMQStream(self.control_socket, self.control_thread.io_loop),
            shell_stream=ShellChannel(self.shell_socket, self.session),
            control_thread=self.control_thread,
            iopub_socket=self.iopub_socket,
            stdin_socket=self.stdin_socket,
            log=self.log,
            user_ns={},
        )

    def start(self) -> None:
        """Serve until told to stop. What escapes from a background task does not end the kernel."""
        self.kernel.start()
        self.io_loop = self.kernel.io_loop
        self.kernel.begin()
        while True:
            try:
                self.io_loop.start()
            except (KeyboardInterrupt, SystemExit) as error:
                if self.writer.forked:
                    leave(error, self.writer.forked)
                continue
            return

    def close(self) -> None:
        """At the process's end: send what is still waiting."""
        self.reset_io()
        self.iopub_socket.close(_LAST_MESSAGES_MS)
        if self.heartbeat:
            self.heartbeat.context.term()
        self.control_thread.stop()
        self.control_thread.join()
        for socket in (self.shell_socket, self.control_socket, self.stdin_socket):
            socket.close(linger=_LAST_MESSAGES_MS)
        self.context.term()

    def _init_streams(self) -> None:
        """Standard output and error become the writer's; our own diagnostics keep the process's real stderr."""
        self._real_stderr = os.dup(2)
        for logger in (self.log, logging.getLogger("tornado")):
            logger.handlers = [logging.StreamHandler(os.fdopen(os.dup(self._real_stderr), "w", encoding="utf-8"))]
        self.log.setLevel(logging.ERROR)
        box = LastWordsBox(Path(f"{self.abs_connection_file}.last"))
        pipes = PipesGiver(Path(self.abs_connection_file).with_name(NAME))
        self.writer = Writer(self.iopub_socket, box, self._real_stderr, pipes)
        sys.stdout = TextStream(self.writer, "stdout")
        sys.stderr = TextStream(self.writer, "stderr")
        # Python's own would hold text back in a buffer that nobody empties before the process ends
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]
        self.writer.start()

    def _init_cells(self) -> None:
        kernel = self.kernel
        show = Show(self.writer, kernel.shell.display_formatter)
        kernel.shell.show = show
        kernel.shell.display_pub.writer = self.writer
        sys.displayhook = kernel.shell.displayhook
        kernel.writer = self.writer
        kernel.interrupts = Interrupts(self.iopub_socket.gate)
        after_import = AfterImport()
        after_import.install()
        seed_python(after_import)
        kernel.figures = Figures(show, after_import)
        prefer_plain_bars(after_import)
        prepare_pyperclip(after_import)
        prepare_secrets(after_import)
        let_interrupts_through(after_import)
        browser = BrowserLink(show.notice, after_import, self._real_stderr)
        kernel.dialogs = browser.dialogs
        prepare_pictures(show.notice, after_import)
        prepare_spawn(after_import)
        have_grandchildren_give_way()
        have_children_go_first()
        let_interrupts_into_system()
        kernel.namespace = Namespace(kernel.shell, show, browser)
        prepare_pyautogui()
        kernel.background = Background(self.writer)
        origin.follow_threads()
        warnings.formatwarning = errors.warning_text
        threading.excepthook = _tell_of_thread
        self._at_exit_of_process()

    def _empty_stdin(self) -> None:
        """Children read end of file at once; so does the cell, and asking for input says why it fails."""
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0, inheritable=True)
        os.close(null)
        builtins.input = _refusal("input")
        getpass.getpass = _refusal("getpass")
        sys.breakpointhook = _refusal("breakpoint")

    def _at_exit_of_process(self) -> None:
        """`os._exit` in a cell ends the process at once; give the messages on their way a moment to leave."""
        leave = os._exit

        def leave_after_sending(status: int) -> NoReturn:
            if self.writer.forked:
                for name in ("stdout", "stderr"):
                    self.writer.forked.flush(name)
            else:
                self.writer.send_all()
                self.iopub_socket.close(_LAST_MESSAGES_MS)
            leave(status)

        os._exit = leave_after_sending


def _tell_of_thread(arguments: Any) -> None:
    """A thread that failed, in the form of our errors; it runs in that thread, so it belongs to its cell."""
    if arguments.exc_value is not None and arguments.exc_type is not SystemExit:
        name = arguments.thread.name if arguments.thread is not None else "unknown"
        lines = (f"Thread {name} failed:", *errors.describe(arguments.exc_value).lines, "")
        sys.stderr.write("\n".join(lines))


def _refusal(name: str) -> Any:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise EOFError(_NO_INPUT.format(name))

    refuse.__name__ = name
    return refuse


def main(arguments: list[str]) -> None:
    """Run one kernel until it is told to stop."""
    parser = argparse.ArgumentParser(prog="python -m cellwright_kernel.python", description="One Python kernel.")
    parser.add_argument("-f", dest="connection_file", required=True, help="the Jupyter connection file")
    options = parser.parse_args(arguments)
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    app = CellKernelApp.instance(config=config, log_level=logging.ERROR)
    asyncio.set_event_loop(asyncio.new_event_loop())
    app.initialize([str(Path(options.connection_file).resolve())])
    # only now: cells import their own modules from where they run, and none of these stands in for one of the kernel's
    sys.path.insert(0, "")
    app.start()


if __name__ == "__main__":
    main(sys.argv[1:])
