"""A process of the desktop is found by the kernel host's own PATH, whatever PATH it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright_kernel.child import Child


@pytest.mark.parametrize("path", ["/nope", ""])
async def test_a_program_starts_under_a_path_that_leads_nowhere(tmp_path: Path, path: str) -> None:
    command = ["env", "-C", "/", "/bin/sh", "-c", 'echo "$PATH"']
    child = await Child.start("x", command, environment={"PATH": path}, folder=tmp_path)
    assert await child.ended() == "x exited with status 0."
    assert child.log() == f"{path}\n"
    await child.stop()


async def test_a_program_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    child = await Child.start("x", ["no-such-program"], environment={}, folder=tmp_path)
    assert await child.ended() == "x exited with status 127."
    assert "no-such-program" in child.tail()
    await child.stop()


async def test_a_signal_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    child = await Child.start("x", ["sh", "-c", "kill -40 $$"], environment={}, folder=tmp_path)
    assert await child.ended() == "x was ended by signal 40."
    await child.stop()
