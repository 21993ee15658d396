"""The session over a fake sandbox: what is recorded, and what happens when the sandbox is lost."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Iterable
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import Response

from cellwright import files
from cellwright.errors import CodeTooLarge, SessionBusy, SessionClosed, UsageError
from cellwright.executor import GRACE_S, LADDER_S
from cellwright.record.journal import Journal
from cellwright.record.reader import read_run
from cellwright.record.records import LateOutput, Note, Screen, SessionOpened
from cellwright.record.stored import restored
from cellwright.record.verdict import verify
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend, FakeSandbox
from cellwright_kernel.wire import Event, Execute, OutputEvent, Text


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


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Spec(allow=("http://example.com",)), "--allow 'http://example.com'"),
        (Spec(secrets=(SecretSpec(name="KEY"),)), "The secret KEY has no value"),
    ],
)
async def test_what_is_refused_at_once_leaves_no_run(spec: Spec, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        async with Session.open(spec, backend=FakeBackend(), runs=tmp_path / "runs"):
            pass
    assert not (tmp_path / "runs").exists()


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
    assert sandbox.left_by == ["1", None, "4", "6"]
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
        session._lease.sandbox.door._transport = _Broken()  # type: ignore[attr-defined]
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


async def test_what_comes_after_the_last_cell_is_recorded_under_its_cells_number() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        await session.execute("log(1)")
        await session.execute("log(2)")
        backend.made[0].late += [
            Text(text="of the first", source="stdout", of_cell=1),
            Text(text="more " * 5000, source="log", of_cell=2),
            Text(text="of the first, too", source="log", of_cell=1),
            Text(text="Something was left out.", source="notice"),
        ]
    run = read_run(session.run_dir)
    late = [record for record in run.records if isinstance(record, LateOutput)]
    assert [(record.of_cell, len(record.outputs)) for record in late] == [(1, 2), (2, 1)]
    first, second = run.stored_cells
    assert [output.text for output in first.late] == ["of the first", "of the first, too"]
    assert [restored(output, run.blobs.read).text for output in second.late] == ["more " * 5000]
    assert [record.text for record in run.records if isinstance(record, Note)] == ["Something was left out."]
    assert [record.type for record in run.records][-2:] == ["session_closed", "run_closed"]
    assert verify(session.run_dir).status == "whole"


async def test_what_a_later_cell_shows_of_an_earlier_one_is_late_output_of_that() -> None:
    class Late(FakeSandbox):
        def _execute(self, asked: Execute) -> Iterable[Event]:
            yield OutputEvent(output=Text(text=f"of {asked.number - 1}", source="log", of_cell=asked.number - 1))
            yield from super()._execute(asked)

    class Backend(FakeBackend):
        async def start(self, spec: Spec, **_: object) -> FakeSandbox:
            return Late(spec)

    async with Session.open(backend=Backend()) as session:
        await session.execute("log('one')")
        await session.execute("log('two')")
    run = read_run(session.run_dir)
    assert [[output.text for output in cell.late] for cell in run.stored_cells] == [["of 1"], []]
    assert [output.text for output in run.cell(2).outputs] == ["of 1", "two"]
    assert [record for record in run.records if isinstance(record, LateOutput)] == []


async def test_the_kernel_host_is_told_until_when_a_cells_end_is_waited_for() -> None:
    class Telling(FakeSandbox):
        def _execute(self, asked: Execute) -> Iterable[Event]:
            yield OutputEvent(output=Text(text=f"{asked.deadline_s:g} and {asked.waited_s:g}", source="log"))
            yield from super()._execute(asked)

    class Backend(FakeBackend):
        async def start(self, spec: Spec, **_: object) -> FakeSandbox:
            return Telling(spec)

    async with Session.open(backend=Backend()) as session:
        cell = await session.execute("log('said')", deadline_s=7)
    assert cell.text == f"7 and {LADDER_S + GRACE_S:g}\nsaid"


async def test_a_kernel_host_that_has_no_word_of_what_came_late_holds_up_nothing() -> None:
    class Silent(FakeSandbox):
        async def _late(self, _: Request) -> Response:
            return Response(OutputEvent(output=Text(text="half", source="log", of_cell=1)).model_dump_json() + "\n")

    class Backend(FakeBackend):
        async def start(self, spec: Spec, **_: object) -> FakeSandbox:
            return Silent(spec)

    async with Session.open(backend=Backend()) as session:
        await session.execute("log(1)")
    run = read_run(session.run_dir)
    assert [output.text for output in run.stored_cells[0].late] == ["half"]
    (note,) = [record for record in run.records if isinstance(record, Note)]
    assert (note.topic, note.text[:50]) == ("late", "What earlier cells said after the last one is not ")
    assert run.status == "done"


async def test_the_run_says_what_it_ran_on_and_how_soon() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        pass
    (opened,) = [record for record in read_run(session.run_dir).records if isinstance(record, SessionOpened)]
    assert (opened.versions, opened.claimed) == ({"python": "fake"}, ("versions",))
    assert 0 <= opened.ready_ms < 5000


@pytest.mark.parametrize(("tag", "pixels"), [("0f" * 32, "0f" * 32), ("plain", None)])
async def test_a_screenshot_is_recorded_with_the_hash_of_its_pixels(tag: str, pixels: str | None) -> None:
    class Tagged(FakeSandbox):
        async def _screen(self, request: Request) -> Response:
            response = await super()._screen(request)
            response.headers["ETag"] = f'"{tag}"'
            return response

    class Backend(FakeBackend):
        async def start(self, spec: Spec, **_: object) -> FakeSandbox:
            return Tagged(spec)

    async with Session.open(backend=Backend()) as session:
        await session.execute("1")
    (screen,) = [record for record in read_run(session.run_dir).records if isinstance(record, Screen)]
    assert screen.pixels_sha256 == pixels


async def test_nothing_that_waits_for_the_disk_holds_up_other_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing a run waits for fsync, and files may be large."""
    threads: dict[str, set[str]] = {}

    def watched(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def watch(*args: object, **options: object) -> object:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, watch)

    for owner, name in (
        (Journal, "close"),
        (Journal, "blob"),
        (files, "_read"),
        (files, "_write"),
        (files, "_to_enter"),
    ):
        watched(owner, name)
    (tmp_path / "in.txt").write_text("in")
    backend = FakeBackend()
    async with Session.open(Spec(files=(tmp_path / "in.txt",), out=tmp_path / "out"), backend=backend) as session:
        await session.write_file("out.txt", b"out")
    assert (tmp_path / "out" / "out.txt").read_bytes() == b"out"
    assert sorted(threads) == ["_read", "_to_enter", "_write", "blob", "close"]
    assert {name for name, where in threads.items() if "MainThread" in where} == set()
