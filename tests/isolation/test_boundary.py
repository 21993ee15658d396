"""What model-written code finds when it looks for the machine around it. Each probe is one cell."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.serving import descendants

from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

HERE = str(Path(__file__).resolve())
MARK = "CELLWRIGHT_TEST_SECRET"


@pytest.fixture(scope="module")
def secret() -> str:
    return f"the caller's {os.getpid()}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(secret: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    os.environ[MARK] = secret
    try:
        async with Session.open(runs=tmp_path_factory.mktemp("runs")) as session:
            yield session
    finally:
        del os.environ[MARK]


async def said(session: Session, code: str) -> str:
    cell = await session.execute(code)
    assert cell.status == "ok", cell.text
    return cell.text


async def test_every_process_runs_as_an_unprivileged_uid_outside(session: Session) -> None:
    assert session.info.uid != 0
    uids = {_owner(pid) for pid in _inside(session.info.pid)}
    assert uids == {session.info.uid}


async def test_no_environment_of_the_caller_is_anywhere_in_proc(session: Session, secret: str) -> None:
    code = f"""
import os, pathlib
found = [str(p) for p in pathlib.Path('/proc').glob('[0-9]*/*') if p.name in ('environ', 'cmdline')
         and os.access(p, os.R_OK) and {secret.encode()!r} in p.read_bytes()]
log((found, {MARK!r} in os.environ))
"""
    assert await said(session, code) == "([], False)"


async def test_nothing_of_the_callers_files_is_there(session: Session) -> None:
    names = [HERE, str(Path.home()), "/root", "/etc/shadow", "/etc/hostname", "/var/lib", "/boot", "/mnt", "/srv"]
    assert await said(session, f"import os; log([n for n in {names!r} if os.path.exists(n)])") == "[]"


@pytest.mark.parametrize("path", ["/usr/x", "/etc/x", "/opt/cellwright/x", "/opt/cellwright/kernel/x", "/x", "/run/x"])
async def test_what_is_not_its_own_cannot_be_written(session: Session, path: str) -> None:
    code = f"""
try:
    open({path!r}, 'w'); log('written')
except OSError as e:
    log(type(e).__name__)
"""
    assert await said(session, code) in {"OSError", "PermissionError"}


@pytest.mark.parametrize("name", ["kernel/core_pattern", "vm/overcommit_memory", "kernel/panic", "kernel/hostname"])
async def test_kernel_settings_cannot_be_written(session: Session, name: str) -> None:
    code = f"""
import pathlib
p = pathlib.Path('/proc/sys') / {name!r}
try:
    p.write_text(p.read_text()); log('written')
except OSError as e:
    log('refused')
"""
    assert await said(session, code) == "refused"


async def test_there_is_no_network_but_its_own_loopback(session: Session) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code = f"""
import socket
found = []
for address in (('127.0.0.1', {port}), ('127.0.0.2', {port}), ('169.254.169.254', 80), ('192.0.2.1', 80)):
    try:
        socket.create_connection(address, 1).close(); found.append(address)
    except OSError:
        pass
try:
    socket.getaddrinfo('example.com', 80); found.append('dns')
except OSError:
    pass
log((found, [name for _, name in socket.if_nameindex()]))
"""
        assert await said(session, code) == "([], ['lo'])"


async def test_foreign_socket_families_and_new_mounts_are_refused(session: Session) -> None:
    code = """
import ctypes, socket, os
libc = ctypes.CDLL(None, use_errno=True)
found = []
for family in (40, 38, 17, 31, 2**32 + 40):
    fd = libc.syscall(41, ctypes.c_long(family), 1, 0)
    if fd >= 0:
        found.append(family); os.close(fd)
for name, number in (('mount', 165), ('bpf', 321), ('keyctl', 250), ('io_uring_setup', 425), ('perf_event_open', 298),
                     ('setns', 308), ('userfaultfd', 323), ('open_by_handle_at', 304)):
    if libc.syscall(number, 0, 0, 0, 0, 0) != -1:
        found.append(name)
log(found)
"""
    assert await said(session, code) == "[]"


async def test_characters_cannot_be_pushed_into_a_terminal(session: Session) -> None:
    code = """
import ctypes, os, pty
libc = ctypes.CDLL(None, use_errno=True)
master, slave = pty.openpty()
pushed = [libc.ioctl(slave, ctypes.c_ulong(request), b'x') for request in (0x5412, 0x5412 | (1 << 32), 0x541C)]
try:
    tty = os.open('/dev/tty', os.O_RDWR)
except OSError:
    tty = None
log((pushed, tty))
"""
    assert await said(session, code) == "([-1, -1, -1], None)"


async def test_the_door_itself_is_out_of_reach_of_code(session: Session) -> None:
    code = "import os; log([n for n in ('/run/ctl', '/run/egress', '/run/cellwright') if os.path.exists(n)])"
    assert await said(session, code) == "[]"


async def test_chromiums_own_sandbox_is_on(session: Session) -> None:
    code = """
import pathlib
renderers = [p.parent for p in pathlib.Path('/proc').glob('[0-9]*/cmdline') if b'--type=renderer' in p.read_bytes()]
facts = set()
for p in renderers:
    status = dict(line.split(':\\t', 1) for line in (p / 'status').read_text().splitlines() if ':\\t' in line)
    facts.add((status['Seccomp'], status['NoNewPrivs'], len(status['NSpid'].split()) > 1))
flags = {b'--no-sandbox' in p.read_bytes() for p in pathlib.Path('/proc').glob('[0-9]*/cmdline')}
log((bool(renderers), facts, flags))
"""
    assert await said(session, code) == "(True, {('2', '1', True)}, {False})"


def _owner(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def _inside(pid: int) -> set[int]:
    return {pid} | descendants(pid)
