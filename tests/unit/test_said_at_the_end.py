"""What a person says while a final answer is checked, or just before a run ends, is not lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellwright.errors import SandboxUnavailable
from cellwright.loop import run
from cellwright.model.base import OnDelta, Request, Response
from cellwright.record import read_run
from cellwright.record.records import Note
from cellwright.session import Session
from cellwright.steering import Steering
from cellwright.terms import Checks
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


def said(folder: Path) -> list[str]:
    return [one.text for one in read_run(folder).records if isinstance(one, Note) and one.topic == "steered"]


async def test_a_word_during_the_check_of_a_final_answer_that_holds_is_read_before_the_run_is_done(
    tmp_path: Path,
) -> None:
    steering = Steering()

    def says_it() -> None:
        steering.steer("Not yet.")
        (tmp_path / "said").touch()

    class Watched(ScriptedModel):
        async def respond(self, request: Request, on_delta: OnDelta) -> Response:
            if not self.requests:
                asyncio.get_running_loop().call_later(0.05, says_it)
            return await super().respond(request, on_delta)

    model = Watched([says("Done."), says("Now it is.")])
    checks = Checks(verify=f"until [ -e {tmp_path}/said ]; do sleep 0.01; done")
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering, checks=checks)
    assert (outcome.status, outcome.summary, outcome.turns) == ("done", "Now it is.", 2)
    assert said(outcome.run_dir) == ["Not yet."]
    assert model.requests[1].history[-1]["content"] == [{"type": "input_text", "text": "Not yet."}]


async def test_a_word_before_a_run_that_an_error_ends_is_in_its_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steering = Steering()

    async def lost(*_: object, **__: object) -> None:
        steering.steer("Use the blue one.")
        raise SandboxUnavailable("There is none.")

    monkeypatch.setattr(Session, "execute", lost)
    model = ScriptedModel([calls("log(1)")])
    with pytest.raises(SandboxUnavailable, match="There is none"):
        await run("Do it.", model=model, backend=FakeBackend(), steering=steering, runs=tmp_path)
    (folder,) = await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
    assert said(folder) == ["Use the blue one."]
