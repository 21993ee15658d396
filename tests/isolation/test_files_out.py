"""Files of a sandbox that are traps: whoever reads them out here gets what lies inside, or a refusal, in bounded time and size."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.isolation.test_boundary import BACKENDS

from cellwright.errors import BadPath, CellwrightError, FileMissing, FileTooLarge
from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

TRAPS = r"""
import os, socket, subprocess
def link(to, name): os.symlink(to, name)
link('/etc/passwd', 'absolute'); link('../../etc/passwd', 'relative'); link('/proc/self/environ', 'environment')
link('/etc', 'folder'); link('/', 'root'); link('..', 'up'); link('nowhere', 'dangling'); link('loop', 'loop'); link('/dev/zero', 'endless')
link('/proc/1/root/etc/passwd', 'through the first'); link('plain', 'to a plain one')
open('plain', 'w').write('plain'); os.link('plain', 'second name')
os.makedirs('folders/below'); open('folders/below/file', 'w').write('below')
os.mkfifo('pipe'); own = socket.socket(socket.AF_UNIX); own.bind('socket'); own.listen()
with open('sparse', 'w') as file: file.truncate(1 << 40)
open('secret program', 'w').write('x'); os.chmod('secret program', 0o6777)
open('closed', 'w').write('x'); os.chmod('closed', 0)
open('a\nb', 'w').write('newline'); open('n' * 255, 'w').write('long'); open('\x1b[2J\x1b]0;x\x07', 'w').write('escape')
open(b'\xff\xfe', 'w').write('bytes'); open('..\\..\\up', 'w').write('backslash'); open('%2e%2e%2fup', 'w').write('percent')
open('a?b#c;d=%00', 'w').write('url'); open(' ', 'w').write('space'); open('...', 'w').write('dots'); open('-rf', 'w').write('dash')
open('e\u0301\u202e\u2066', 'w').write('unicode')
"""
READS: dict[str, bytes | type[CellwrightError]] = {
    "plain": b"plain",
    "second name": b"plain",
    "folders/below/file": b"below",
    "folders//below/file": b"below",
    "a\nb": b"newline",
    "n" * 255: b"long",
    "\x1b[2J\x1b]0;x\x07": b"escape",
    "..\\..\\up": b"backslash",
    "%2e%2e%2fup": b"percent",
    "a?b#c;d=%00": b"url",
    " ": b"space",
    "...": b"dots",
    "-rf": b"dash",
    "e\u0301\u202e\u2066": b"unicode",
    "secret program": b"x",
    **dict.fromkeys(
        ("absolute", "relative", "environment", "through the first", "to a plain one", "dangling", "loop", "endless"),
        BadPath,
    ),
    **dict.fromkeys(("folder", "folder/passwd", "root/etc/passwd", "up/agent/plain", "loop/x", "folders"), BadPath),
    **dict.fromkeys(("pipe", "socket", "closed", "plain/x", "n" * 256, "d/" * 3000, ""), BadPath),
    **dict.fromkeys(("..", "../..", "../../etc/passwd", "/etc/passwd", "folders/../../x", "./plain", "x\0y"), BadPath),
    **dict.fromkeys(
        ("%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "..\\etc\\passwd", "\udcff\udcfe"), FileMissing
    ),
    "sparse": FileTooLarge,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BACKENDS)
async def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    spec = Spec(backend=request.param, browser=False)
    async with Session.open(spec, runs=tmp_path_factory.mktemp("runs")) as opened:
        await _run(opened, TRAPS)
        yield opened


@pytest.mark.parametrize("path", READS, ids=[ascii(path)[:40] for path in READS])
async def test_a_file_is_read_as_it_is_or_refused(session: Session, path: str) -> None:
    expected = READS[path]
    async with asyncio.timeout(10):
        if isinstance(expected, bytes):
            assert await session.read_file(path) == expected
        else:
            with pytest.raises(expected):
                await session.read_file(path)


@pytest.mark.parametrize(
    "path", ["absolute", "folder/new", "up/new", "../new", "/tmp/new", "pipe", "socket", "folders"]
)
async def test_nothing_is_written_through_a_trap(session: Session, path: str) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(BadPath):
            await session.write_file(path, b"x")
    assert await _run(session, "log([os.path.exists(path) for path in ('/home/new', '/tmp/new')])") == "[False, False]"


async def test_a_listing_has_regular_files_and_no_others(session: Session) -> None:
    listed = {info.path for info in await session.list_files() if not info.path.startswith(".")}
    regular = {path for path, expected in READS.items() if isinstance(expected, bytes) and path[0] != "."}
    regular -= {"folders//below/file"}
    assert listed == regular | {"sparse", "closed", "��"}


async def test_a_folder_that_becomes_a_link_meanwhile_shows_nothing_of_its_target(session: Session) -> None:
    """One that looks first and opens then would follow it some of the time."""
    await _run(
        session,
        """
import threading
os.makedirs('real', exist_ok=True); open('real/passwd', 'w').write('own')
stopped = threading.Event()
def flip():
    while not stopped.is_set():
        for to in ('real', '/etc'):
            os.symlink(to, 'new') if to == '/etc' else os.mkdir('new')
            if to == 'real': open('new/passwd', 'w').write('own')
            os.rename('new', 'turning') if not os.path.lexists('turning') else None
            if os.path.islink('turning'): os.unlink('turning')
            elif os.path.isdir('turning'): os.unlink('turning/passwd'); os.rmdir('turning')
            if os.path.islink('new'): os.unlink('new')
            elif os.path.isdir('new'): os.unlink('new/passwd'); os.rmdir('new')
thread = threading.Thread(target=flip, daemon=True); thread.start()
""",
    )
    read = set()
    for _ in range(300):
        try:
            read.add(await session.read_file("turning/passwd"))
        except (BadPath, FileMissing):
            continue
    await _run(session, "stopped.set(); thread.join()")
    assert read <= {b"own", b""}


async def test_a_file_that_grows_for_ever_is_read_as_far_as_it_was(session: Session) -> None:
    await _run(
        session,
        """
stopped.clear()
open('growing', 'wb').write(bytes(1000))
def grow():
    with open('growing', 'ab') as file:
        while not stopped.is_set() and file.tell() < 300_000_000: file.write(bytes(65536)); file.flush()
thread = threading.Thread(target=grow, daemon=True); thread.start()
""",
    )
    async with asyncio.timeout(30):
        read = await session.read_file("growing")
    await _run(session, "stopped.set(); thread.join(); os.unlink('growing')")
    assert 1000 <= len(read) <= 300_100_000


async def test_a_folder_of_a_hundred_thousand_and_one_without_a_ground_are_listed_in_part(session: Session) -> None:
    await _run(
        session,
        """
os.makedirs('many'); at = os.open('many', os.O_RDONLY)
for number in range(100_000): os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=at))
os.makedirs('deep'); below = os.open('deep', os.O_RDONLY)
for number in range(2000):
    os.mkdir('d', dir_fd=below); below, before = os.open('d', os.O_RDONLY, dir_fd=below), below; os.close(before)
os.close(os.open('ground', os.O_CREAT, dir_fd=below))
""",
    )
    async with asyncio.timeout(30):
        assert len(await session.list_files("many")) == 10_000
        assert await session.list_files("deep") == []
    await _run(session, "import shutil; shutil.rmtree('many'); subprocess.run(['rm', '-rf', 'deep']);")


async def test_no_head_or_path_that_is_too_large_hurts_the_door(session: Session) -> None:
    for path in ("p" * 5000, "p/" * 3000, "é" * 4000, "é" * 20_000, "x" * 70_000):
        with pytest.raises(BadPath):
            await session.read_file(path)
        with pytest.raises(BadPath):
            await session.list_files(path)
    assert await session.read_file("plain") == b"plain"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_what_is_copied_out_stays_below_the_folder(backend: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with Session.open(Spec(backend=backend, browser=False, out=out), runs=tmp_path / "runs") as session:
        await _run(session, TRAPS + "os.unlink('sparse'); os.unlink('closed')")
    expected = {path: data for path, data in READS.items() if isinstance(data, bytes)}
    del expected["folders//below/file"]
    copied = {str(path.relative_to(out)): path for path in out.rglob("*") if not path.is_dir()}
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in copied.values()}
    modes = {path.lstat().st_mode & 0o7133 for path in copied.values()}
    assert (kinds, modes) == ({stat.S_IFREG}, {0})
    assert {name: path.read_bytes() for name, path in copied.items()} == {
        name: data for name, data in expected.items() if not name.startswith(".")
    }
    assert sorted(os.listdir(tmp_path)) == ["out", "runs"]  # noqa: PTH208 - names only


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_link_in_the_callers_folder_is_not_followed(backend: str, tmp_path: Path) -> None:
    """It may have been made by a file of the last session's that the caller unpacked."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("mine")
    (out / "report").symlink_to(tmp_path / "precious")
    with pytest.raises(CellwrightError, match="could not be written"):
        async with Session.open(Spec(backend=backend, browser=False, out=out), runs=tmp_path / "runs") as session:
            await _run(session, "open('report', 'w').write('theirs');")
    assert (tmp_path / "precious").read_text() == "mine"
    assert os.listdir(out) == ["report"]  # noqa: PTH208 - names only


async def _run(session: Session, code: str) -> str:
    cell = await session.execute(code)
    assert cell.status == "ok", cell.text
    return cell.text
