"""The session over a fake sandbox: what is recorded, and what happens when the sandbox is lost."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import httpx2
import pytest

from cellwright.errors import CodeTooLarge, SessionBusy, SessionClosed, UsageError
from cellwright.record.reader import read_run
from cellwright.record.verdict import verify
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.wire import Text


async def test_variables_persist_and_cells_are_numbered() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("x = 41")
        cell = await session.execute("log(x + 1)")
    assert (cell.number, cell.status, cell.text) == (2, "ok", "42")


async def test_the_run_on_disk_has_every_cell() -> None:
    async with Session.open(backend=FakeBackend(), driver="cli") as session:
        await session.execute("log('one')")
        await session.execute("1 / 0")
    run = read_run(session.run_dir)
    assert [(cell.number, cell.code, cell.status) for cell in run.cells] == [
        (1, "log('one')", "ok"),
        (2, "1 / 0", "error"),
    ]
    assert run.status == "done"
    assert run.info.driver == "cli"


async def test_code_with_half_a_character_is_an_error_of_its_cell_and_kept_as_it_was() -> None:
    code = "x = 1\ns = '\udc00'; s"
    async with Session.open(backend=FakeBackend()) as session:
        cell = await session.execute(code)
        after = await session.execute("log('x' in globals())")
    assert (cell.status, after.text) == ("error", "False")
    assert cell.text.startswith("The code was not executed: character 6 of line 2 is a lone surrogate (U+DC00)")
    assert "\ufffd" in cell.model_dump_json()
    assert [cell.code for cell in read_run(session.run_dir).cells] == [code, "log('x' in globals())"]


async def test_an_unchanged_screen_is_kept_once() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("1")
        await session.execute("2")
    kinds = [record.type for record in read_run(session.run_dir).records]
    assert kinds.count("screen") == 1
    assert len(list((session.run_dir / "blobs").rglob("*"))) >= 1


async def test_the_screen_after_a_cell_is_known_once_it_is_read_from_the_run() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        answered = [await session.execute("1"), await session.execute("2")]
    read = read_run(session.run_dir).cells
    assert [cell.screen_after for cell in answered] == [None, None]
    assert [cell.screen_after for cell in read] == [answered[1].screen_before] * 2
    assert answered[1].screen_before is not None


async def test_a_screen_that_did_not_change_is_not_asked_for() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        sandbox = backend.made[0]
        sandbox.screen_changed = False
        await session.execute("1")
        first = await session.execute("2")
        await session.execute("3")
        assert sandbox.screenshots == 1  # of a session's first cell one is always taken
        await session.screenshot()  # what has changed since is counted from here, so that ours may be an old one
        await session.execute("4")
        second = await session.execute("5")
        assert sandbox.screenshots == 3
        sandbox.screen_changed = True
        await session.execute("6")
    assert sandbox.screenshots == 4
    assert first.screen_before is not None
    assert second.screen_before == first.screen_before
    assert [record.type for record in read_run(session.run_dir).records].count("screen") == 1


async def test_a_new_sandbox_is_looked_at_even_if_its_screen_did_not_change() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("1")
        backend.made[0].lose()
        await asyncio.sleep(0)
        await session.execute("2")
        backend.made[1].screen_changed = False
        await session.execute("3")
    assert [sandbox.screenshots for sandbox in backend.made] == [1, 1]


async def test_a_lost_sandbox_is_replaced_and_the_next_cell_is_told() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("x = 1")
        backend.made[0].lose()
        await asyncio.sleep(0)
        cell = await session.execute("log('x' in globals())")
    assert isinstance(cell.outputs[0], Text)
    assert cell.outputs[0].source == "notice"
    assert "was replaced" in cell.outputs[0].text
    assert cell.outputs[1] == Text(text="False", source="log")
    assert len(backend.made) == 2


async def test_a_sandbox_lost_while_a_cell_runs_is_a_status() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        session._lease.sandbox.door._client._transport = _Broken()  # type: ignore[attr-defined]
        cell = await session.execute("1")
        after = await session.execute("log(2)")
    assert (cell.status, cell.rung) == ("sandbox_lost", "replace_sandbox")
    assert after.text.endswith("2")


async def test_two_cells_at_once_are_refused() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        first = asyncio.ensure_future(session.execute("log(1)"))
        await asyncio.sleep(0)
        with pytest.raises(SessionBusy, match="Cell 1 is still running"):
            await session.execute("log(2)")
        assert (await first).text == "1"


async def test_code_beyond_64_kib_does_not_run() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        with pytest.raises(CodeTooLarge):
            await session.execute("#" * (64 * 1024 + 1))
        assert (await session.execute("#" * 64 * 1024)).number == 1


async def test_a_closed_session_says_so() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        pass
    with pytest.raises(SessionClosed):
        await session.execute("1")


async def test_files_go_in_and_new_and_changed_ones_come_out(tmp_path: Path) -> None:
    given = [tmp_path / "in.csv", tmp_path / "changed.csv"]
    for path in given:
        path.write_text("a,b\n")
    async with Session.open(Spec(files=tuple(given), out=tmp_path / "out"), backend=FakeBackend()) as session:
        assert await session.read_file("in.csv") == b"a,b\n"
        await session.write_file("changed.csv", b"b,a\n")  # of the same size
        await session.write_file("results/new.txt", b"new")
        await session.write_file(".cache/x", b"hidden")
        given[0].unlink()  # what the caller does with his own meanwhile is nothing to the sandbox
    out = {str(path.relative_to(tmp_path / "out")): path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    assert out == {"changed.csv": b"b,a\n", "results/new.txt": b"new"}


async def test_a_run_keeps_the_files_that_entered_and_says_when_one_is_gone(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n")
    async with Session.open(Spec(files=(tmp_path / "in.csv",)), backend=FakeBackend()) as session:
        await session.write_file("new.txt", b"new")
    entered = [hashlib.sha256(data).hexdigest() for data in (b"a,b\n", b"new")]
    assert verify(session.run_dir).problems == ()
    for sha256 in entered:
        (session.run_dir / "blobs" / sha256).unlink()
    assert [problem.file for problem in verify(session.run_dir).problems] == sorted(f"blobs/{one}" for one in entered)


async def test_a_link_is_not_followed_into_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="symbolic link"):
        async with Session.open(Spec(files=(tmp_path / "folder",)), backend=FakeBackend()):
            pass


async def test_a_name_from_inside_never_leaves_the_out_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "door").symlink_to(tmp_path)
    backend = FakeBackend()
    with pytest.raises(Exception, match="could not be written"):
        async with Session.open(Spec(out=out), backend=backend) as session:
            backend.made[0].files["door/evil"] = b"x"
    assert not (tmp_path / "evil").exists()
    run = read_run(session.run_dir)
    assert (run.status, [record.type for record in run.records][-2:]) == ("failed", ["session_closed", "run_closed"])


async def test_an_error_in_the_callers_block_closes_the_run_as_failed() -> None:
    with pytest.raises(RuntimeError):
        async with Session.open(backend=FakeBackend()) as session:
            raise RuntimeError("the caller's own")
    run = read_run(session.run_dir)
    assert (run.status, run.end and run.end.reason) == ("failed", "the caller's own")


class _Broken:
    async def handle_async_request(self, request: object) -> None:  # noqa: ARG002 - whatever is asked
        raise httpx2.ReadError("broken off")

    async def aclose(self) -> None:
        """Nothing is held."""
