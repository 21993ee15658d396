"""The kernel host: the process inside that owns desktop and kernels and has the one door.

Flows in: the settings. Flows out: an exit status, once told to stop. Decided here: the order of start and stop, when
the inside counts as usable, and under which limits and with which environment kernels start. The door opens first, so that whoever waits for readiness is told what is missing.

It is a parent for every process inside: orphans become its children, and are reaped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cellwright_kernel import params, processes, repeatable, sentences
from cellwright_kernel.child import NotUp
from cellwright_kernel.door import door
from cellwright_kernel.egress import Forwarder, proxy_environment
from cellwright_kernel.informant.informant import Informant
from cellwright_kernel.kernel_process import COMMANDS
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.memory import HEADROOM_BYTES, Memory, data_bytes
from cellwright_kernel.people import ask_user
from cellwright_kernel.people.broker import QuestionBroker
from cellwright_kernel.playwright_browsers import playwright_environment
from cellwright_kernel.secrets.secrets import WHERE
from cellwright_kernel.server import Server, listener
from cellwright_kernel.versions import versions
from cellwright_kernel.wire import HostSettings, Language, MemoryLimit, Ready

if TYPE_CHECKING:
    from cellwright_kernel.desktop_keeper import DesktopKeeper
    from cellwright_kernel.screenshots import Screenshot
    from cellwright_kernel.secrets.broker import SecretBroker

_REAP_EVERY_S: Final = 0.5
"""A look takes a millisecond."""
_ANSWERED_S: Final = 0.02


async def run(settings: HostSettings) -> None:
    """Serve until the pipe at standard input is closed, then stop everything in order; where there is none, until SIGTERM or SIGINT.

    Args:
        settings: What to start.
    """
    processes.become_subreaper()
    processes.keep_to_itself()
    stop = asyncio.Event()
    _stop_when_told(stop)
    folder = Path(tempfile.mkdtemp(prefix="cellwright-"))
    try:
        async with asyncio.TaskGroup() as group:
            host = Host(settings, folder)
            server = Server(door(host, Path(settings.home)), listener(settings.door))
            reaping = group.create_task(_reap())
            serving = group.create_task(server.run_until_stopped())
            async with host.running():
                await stop.wait()
            server.stop()
            await serving
            reaping.cancel()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Host:
    """What is behind the door.

    Args:
        settings: What to start.
        folder: A private folder for sockets and logs.
    """

    def __init__(self, settings: HostSettings, folder: Path) -> None:
        self._settings = settings
        self.informant = self._new_informant()
        self._desktop = self._new_desktop(folder / "desktop") if settings.desktop else None
        self._playwright = playwright_environment(folder / "browsers", settings.chromium) if settings.desktop else {}
        side = settings.image_side
        self.kernels = Kernels(
            settings.home,
            folder / "kernels",
            self._environment,
            usable=self._desktop.usable if self._desktop else None,
            release_keys=self._desktop.release_keys if self._desktop else None,
            ensure_desktop_answers=self._desktop.ensure_it_answers if self._desktop else None,
            cell_ended=self._cell_ended,
            commands=_commands(settings.processes, settings.memory),
            memory=Memory(settings.memory),
            groups=settings.groups.get("cells", ()),
            image_size=(max(side, settings.width), max(side, settings.height)),
        )
        self.secrets = self._new_secrets(folder / "secrets") if settings.secrets else None
        self.questions = QuestionBroker(folder / "questions", lambda: self.kernels.running)
        self._starting: asyncio.Task[tuple[str, ...]] | None = None
        self._begun = asyncio.Event()
        self._looking = asyncio.Event()
        self._problems: tuple[str, ...] = ()
        self._versions: dict[str, str] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start everything in the background; stop it all in order when left."""
        async with (
            Forwarder(self._settings, self.kernels.refused, self.kernels.refused_page) as forwarder,
            asyncio.TaskGroup() as group,
        ):
            self._problems = forwarder.problems
            await self.questions.start()
            if self.secrets is not None:
                await self.secrets.start()
            async with self.kernels:
                keeping = group.create_task(self._start_and_keep(group))
                try:
                    yield
                finally:
                    keeping.cancel()
            self.questions.stop()
            if self.secrets is not None:
                await self.secrets.stop()
            if self._desktop is not None:
                await self._desktop.stop()
            if self.informant is not None:
                await self.informant.stop()

    async def ready(self, timeout_s: float) -> Ready:
        """Wait until everything is usable, something has failed, or the time is over."""
        with contextlib.suppress(TimeoutError):  # the door opens first, so whoever asks may be early
            async with asyncio.timeout(timeout_s):
                await self._begun.wait()
        if self._starting is None:
            return Ready(ready=False, missing=("The kernel host is stopping, or has not begun to start.",))
        await asyncio.wait({self._starting}, timeout=timeout_s)
        if not self._starting.done():
            return Ready(ready=False, missing=(f"Not everything was up after {timeout_s:g} s.",))
        if self._starting.cancelled():
            return Ready(ready=False, missing=("The kernel host is stopping.",))
        missing = (*self._starting.result(), *self._problems)
        return Ready(ready=not missing, missing=missing, versions=self._versions)

    async def screenshot(self, *, left_by: int | None) -> Screenshot:
        """Take a screenshot, or the one that was begun when a cell ended.

        Raises:
            NotUp: there is no desktop, or it is gone.
        """
        if self._desktop is None:
            raise NotUp("This sandbox was made without a desktop; there is no screen.")
        return await self._desktop.screenshot(left_by=left_by)

    async def _start_and_keep(self, group: asyncio.TaskGroup) -> None:
        self._starting = group.create_task(self._start())
        self._begun.set()
        try:
            await asyncio.shield(self._starting)
            if self._desktop is not None and self._desktop.usable.is_set():
                looking = group.create_task(self._look_after_cells(self._desktop))
                try:
                    await self._desktop.keep()
                except Exception as error:
                    self.kernels.note(sentences.unkept(error))
                finally:
                    looking.cancel()
        finally:
            self._starting.cancel()

    async def _look_after_cells(self, desktop: DesktopKeeper) -> None:
        while True:
            await self._looking.wait()
            self._looking.clear()
            await desktop.see_parts()

    async def _start(self) -> tuple[str, ...]:
        """Start desktop and Python kernel side by side; return what failed, each a sentence."""
        port_is_up = asyncio.Event()
        missing: tuple[str, ...] = ()
        try:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(versions())
                if self._desktop is not None:
                    group.create_task(self._desktop.start(port_is_up))
                    await port_is_up.wait()
                group.create_task(self.kernels.start("python"))
        except* NotUp as errors:
            missing = tuple(map(str, errors.exceptions))
        else:
            self._versions = asking.result()
            if self._desktop is not None and self._settings.browser:
                self._versions["chromium"] = self._desktop.browser_version.rpartition("/")[2]
        return missing

    def _environment(self) -> dict[str, str]:
        """Return what a kernel that starts now finds in its environment."""
        runtime = str(Path(sys.executable).parent)
        return {
            "PATH": f"{runtime}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": self._settings.home,
            "LANG": "C.UTF-8",
            # only without a sandbox: inside one the runtime itself knows where our package is
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
            **proxy_environment(self._settings),
            **self._playwright,
            **(self._desktop.environment() if self._desktop else {}),
            ask_user.WHERE: str(self.questions.socket),
            **({WHERE: str(self.secrets.socket)} if self.secrets else {}),
            **(repeatable.environment() if self._settings.deterministic else {}),
            **{name: value for name, value in self._settings.env.items() if name != params.WHERE},
            **params.environment(self._settings.params),  # the run's word for what cells found
        }

    def _cell_ended(self, number: int) -> bool:
        """Begin what follows each cell; return whether the screen may have changed."""
        if self._desktop is None:
            return True
        # once the answer is out: a look takes 0.07 ms
        asyncio.get_running_loop().call_later(_ANSWERED_S, self._looking.set)
        return self._desktop.cell_ended(number)

    def _new_desktop(self, folder: Path) -> DesktopKeeper:
        from cellwright_kernel.desktop_keeper import DesktopKeeper  # noqa: PLC0415 - needs Pillow and Xlib

        folder.mkdir(mode=0o700, parents=True)
        follow = self.informant.follow if self.informant else None
        return DesktopKeeper(self._settings, folder, proxy_environment(self._settings), self._note, follow)

    def _new_informant(self) -> Informant | None:
        settings = self._settings
        if settings.egress_socket is None or not (settings.desktop and settings.browser):
            return None
        return Informant(lambda: self.kernels.executing, settings.forwards)

    def _new_secrets(self, socket: Path) -> SecretBroker:
        from cellwright_kernel.secrets.broker import SecretBroker  # noqa: PLC0415 - needs Xlib, and is seldom needed
        from cellwright_kernel.secrets.typist import Typist  # noqa: PLC0415 - the same

        return SecretBroker(
            socket, self._settings.secrets, self.kernels.ask, Typist(self._desktop) if self._desktop else None
        )

    def _note(self, sentence: str) -> None:
        self.kernels.note(sentence)


def _commands(processes: int | None, memory: MemoryLimit | None) -> Mapping[Language, Sequence[str]]:
    """Return how kernels are started: under limits that are not ours, so that we have room to end what fills them."""
    return {language: (*_limits(language, processes, memory), *command) for language, command in COMMANDS.items()}


def _limits(language: Language, processes: int | None, memory: MemoryLimit | None) -> list[str]:
    limits = [] if processes is None else [f"--nproc={processes}:{processes}"]
    if memory is not None:
        most = data_bytes(language, memory)
        limits.append(f"--data={most}:{most + HEADROOM_BYTES}")
    return [shutil.which("prlimit") or "prlimit", *limits, "--"] if limits else []


async def _reap() -> None:
    seen: dict[int, int] = {}
    while True:
        await asyncio.sleep(_REAP_EVERY_S)
        seen = processes.reap_orphans(seen)


def _stop_when_told(stop: asyncio.Event) -> None:
    """Where there is a leash, its end alone is heeded: a signal may come from a cell, which has our uid, and would end the sandbox."""
    loop = asyncio.get_running_loop()
    has_leash = _has_leash()
    for number in (signal.SIGTERM, signal.SIGINT):
        if not has_leash:
            loop.add_signal_handler(number, stop.set)
        elif os.getpid() == 1:
            # a pid namespace's first process is sent no signal that it does not handle, from inside or out, but for SIGKILL from out
            signal.signal(number, signal.SIG_DFL)
        else:
            loop.add_signal_handler(number, _unheeded)  # ignored, it would be so in all that we start
    if has_leash:
        loop.add_reader(0, _read_leash, stop)


def _has_leash() -> bool:
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


def _unheeded() -> None:
    """A signal that ends nothing."""


def _read_leash(stop: asyncio.Event) -> None:
    """Standard input is a leash: its other end is closed when whoever started us is gone."""
    try:
        is_open = bool(os.read(0, 4096))
    except OSError:
        is_open = False
    if not is_open:
        asyncio.get_running_loop().remove_reader(0)
        stop.set()
