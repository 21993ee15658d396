"""The bus on which programs say what their windows show (AT-SPI), and which is their session bus as well.

    bus = ProgramBus(folder, home)          # a private, existing folder
    await bus.open(":7")                    # from here on programs can connect; again when the display was started again
    bus.environment()                       # what programs need to find it
    await bus.close()

Flows in: connections. Flows out: a D-Bus daemon that takes them. Decided here: that it is started by the first
connection, so that a session in which no program asks for it pays for a socket only (with the registry it is 3 MB);
that one bus serves for both, where a desktop has two, a launcher and a service manager; that nothing else can be
activated on it; and that it is started again when it ended. If it cannot be, connections are refused rather than left
waiting, since a program that starts waits for its bus.

Toolkits find it without a session manager: by AT_SPI_BUS_ADDRESS (GTK 3) or by the property of the display's root
window of nearly the same name (Qt 5, and who was started without our environment); neither asks further then whether it
is wanted. GTK 4.8 connects, and does not register without more of a desktop session; its windows count as those of
programs that tell nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
from collections import deque
from pathlib import Path
from typing import Final
from urllib.parse import quote

from Xlib import Xatom
from Xlib import display as xlib
from Xlib.error import ConnectionClosedError, DisplayError

_SERVICES: Final = Path("/usr/share/dbus-1/accessibility-services")
"""Of at-spi2-core: the registry, and nothing more."""
_CONFIGURATION: Final = f"""<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>systemd:</listen>
  <auth>EXTERNAL</auth>
  <servicedir>{_SERVICES}</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
  <limit name="service_start_timeout">5000</limit>
</busconfig>
"""
_HANDED_FD: Final = 3
"""Where the daemon expects the socket that it is handed; it takes it only if the variable names its own process."""
_AS_HANDED: Final = 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
_BACKLOG: Final = 64
_GONE: Final = (ConnectionClosedError, DisplayError, OSError)
_RESTARTS: Final = 5
_RESTARTS_WITHIN_S: Final = 60.0


class ProgramBus:
    """One bus, started when it is needed.

    Args:
        folder: A private folder for its socket, configuration and log.
        home: HOME of what is started.
    """

    def __init__(self, folder: Path, home: str) -> None:
        self._folder = folder
        self._environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": home, "LANG": "C.UTF-8"}
        self._listener: socket.socket | None = None
        self._pid = 0
        self._pidfd = -1
        self._started_at: deque[float] = deque(maxlen=_RESTARTS)

    @property
    def pid(self) -> int:
        """The daemon's process id; 0 while none runs."""
        return self._pid

    def environment(self) -> dict[str, str]:
        """Return what programs need to find it; nothing where there is none."""
        if self._listener is None:
            return {}
        return {
            "DBUS_SESSION_BUS_ADDRESS": self._address,
            "AT_SPI_BUS_ADDRESS": self._address,
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }

    async def open(self, display: str) -> None:
        """Take connections from here on, and have the display name the bus; not where daemon or registry are missing.

        Args:
            display: Such as `:7`, and up.
        """
        if shutil.which("dbus-daemon") is None or not _SERVICES.is_dir():
            return
        self._environment["DISPLAY"] = display  # the registry needs it
        if self._listener is None:
            self._listen()
        with contextlib.suppress(*_GONE):  # whoever starts the display again opens this again
            await asyncio.to_thread(_name_on, display, self._address)

    def _listen(self) -> None:
        (self._folder / "bus.conf").write_text(_CONFIGURATION)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._folder / "bus"))
        listener.listen(_BACKLOG)
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener, self._start)

    async def close(self) -> None:
        """End it and what it started; safe to call twice."""
        self._refuse()
        if self._pid:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            await asyncio.to_thread(self._reap)

    @property
    def _address(self) -> str:
        return f"unix:path={quote(str(self._folder / 'bus'), safe='/-_.')}"

    def _start(self) -> None:
        """Somebody connects: hand the socket to a daemon, and look at it again when that has ended."""
        assert self._listener is not None  # noqa: S101 - for the type checker; it is what was heard of
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        if len(self._started_at) == _RESTARTS and loop.time() - self._started_at[0] < _RESTARTS_WITHIN_S:
            self._refuse()
            return
        self._started_at.append(loop.time())
        try:
            self._pid = self._spawn(self._listener.fileno())
        except OSError:
            self._refuse()
            return
        self._pidfd = os.pidfd_open(self._pid)
        loop.add_reader(self._pidfd, self._ended)

    def _spawn(self, listener: int) -> int:
        environment = {**self._environment, **self.environment()}
        daemon = ["dbus-daemon", "--nofork", "--nopidfile", "--nosyslog", f"--config-file={self._folder / 'bus.conf'}"]
        # setpriv: if the kernel host is killed, nobody else would end it (outside of a pid namespace)
        command = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _AS_HANDED, "sh", *daemon]
        log = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return os.posix_spawn(
            shutil.which(command[0]) or command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, listener, _HANDED_FD),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self._folder / "bus.log"), log, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )

    def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        self._reap()
        if self._listener is not None:
            loop.add_reader(self._listener, self._start)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):  # the reaper of orphans may have been first
            os.waitpid(self._pid, 0)
        with contextlib.suppress(ProcessLookupError):  # what it had started
            os.killpg(self._pid, signal.SIGKILL)
        os.close(self._pidfd)
        self._pid, self._pidfd = 0, -1

    def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
            (self._folder / "bus").unlink(missing_ok=True)


def _name_on(display: str, address: str) -> None:
    connection = xlib.Display(display)
    try:
        root = connection.screen().root
        root.change_property(connection.intern_atom("AT_SPI_BUS"), Xatom.STRING, 8, address.encode())
        connection.sync()
    finally:
        connection.close()
