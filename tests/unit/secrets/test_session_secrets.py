"""A session with secrets over a fake sandbox: what it answers cells, and what nothing of it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.errors import FileMissing, UsageError
from cellwright.record.journal import Journal, open_run
from cellwright.record.reader import read_run
from cellwright.record.records import Note
from cellwright.record.verdict import verify
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.secret_uses import SecretUses, secrets_of
from cellwright.secrets import Secrets
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright_kernel.wire import Event, Execute, HostSettings, SecretAskedEvent

VALUE = 'hunter2/and "more"'
SPEC = Spec(secrets=(SecretSpec(name="TYPED"), SecretSpec(name="SENT", hosts=("*.example.com", "localhost:8000"))))
VALUES = {"TYPED": VALUE, "SENT": "another value"}


def everything_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_nothing_that_a_session_tells_or_keeps_has_a_value(tmp_path: Path) -> None:
    events: list[Event] = []
    folder = tmp_path / VALUE.replace("/", "%2F")
    folder.mkdir()
    file = folder / "copied.txt"
    file.write_text(f"a file with {VALUE}")
    spec = SPEC.model_copy(update={"files": (file,), "env": {"GIVEN": VALUE}})
    async with Session.open(spec, backend=FakeBackend(), task=f"Use {VALUE}", secrets=VALUES) as session:
        cell = await session.execute(
            f"import json\nvalue = {VALUE!r}\nprint(value, json.dumps(value))\nlog({{'a': value}})\nraise KeyError(value)",
            on_event=events.append,
        )
        assert cell.status == "error"
        await session.write_file(f"name {VALUES['SENT']}", VALUE.encode())
        assert [info.path for info in await session.list_files()][-1].endswith("[secret SENT]")
        with pytest.raises(FileMissing) as missing:
            await session.read_file("none")
        session.conclude("failed", reason=f"of {VALUE}", summary=VALUE)
    told = "".join(output.model_dump_json() for output in cell.outputs) + "".join(e.model_dump_json() for e in events)
    for part in (VALUE, "hunter2", "another value"):
        assert part not in told + str(missing.value)
        assert part.encode() not in everything_in(session.run_dir)
    assert cell.text.startswith('[secret TYPED] "[secret TYPED]"')
    run = read_run(session.run_dir)
    assert verify(session.run_dir).problems == ()
    assert run.info.task == "Use [secret TYPED]"
    assert run.info.spec["env"] == ["GIVEN"]
    assert run.info.spec["secrets"] == [
        {"name": "TYPED", "hosts": []},
        {"name": "SENT", "hosts": ["*.example.com", "localhost:8000"]},
    ]


async def test_the_code_of_a_run_can_be_executed_again_with_the_secret_given_again() -> None:
    code = "secrets.type('TYPED')"
    async with Session.open(SPEC, backend=FakeBackend(), secrets=VALUES) as session:
        await session.execute(code)
    run = read_run(session.run_dir)
    assert run.cells[0].code == code
    assert Spec(secrets=run.info.spec["secrets"]).secrets == SPEC.secrets  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"TYPED": VALUE}, "The secret SENT has no value."),
        ({**VALUES, "MORE": "anything"}, "The Spec names no secret MORE."),
        ({**VALUES, "SENT": "short"}, "The value of the secret SENT has 5 characters."),
    ],
)
async def test_a_session_whose_values_do_not_fit_is_not_opened(
    values: dict[str, str], why: str, tmp_path: Path
) -> None:
    backend = FakeBackend()
    with pytest.raises(UsageError, match=why):
        async with Session.open(SPEC, backend=backend, runs=tmp_path, secrets=values):
            """It is not entered."""
    assert backend.made == []
    assert everything_in(tmp_path) == b""


def test_a_secret_bound_to_no_host_says_what_is_wrong() -> None:
    with pytest.raises(UsageError) as refused:
        secrets_of(Spec(secrets=(SecretSpec(name="A", hosts=("http://x/",)),)), {"A": "long enough"})
    assert str(refused.value).startswith("--secret A@'http://x/': only the host and its port belong here")


def test_a_parameter_that_says_the_value_of_a_secret_is_refused_without_telling_it() -> None:
    spec = SPEC.model_copy(update={"params": {"city": "Rome", "login": f"user:{VALUE}"}})
    with pytest.raises(
        UsageError, match=r"The parameter login says the value of a secret.*Nothing was started"
    ) as refused:
        secrets_of(spec, VALUES)
    assert "hunter2" not in str(refused.value)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_run(tmp_path, session_id="s", driver="library", spec=SPEC) as journal:
        yield journal


@pytest.fixture
def secrets() -> Secrets:
    return secrets_of(SPEC, VALUES)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("type", "TYPED", None), None),
        (("type", "TYPED", "https://any.where"), None),
        (("type", "SENT", "https://www.example.com"), None),
        (("type", "SENT", "http://localhost:8000"), None),
        (("type", "SENT", "http://localhost:8001"), "is a page of http://localhost:8001. Nothing was typed."),
        (("type", "SENT", "https://example.com"), "is a page of https://example.com. Nothing was typed."),
        (
            ("type", "SENT", "https://www.example.com:8443"),
            "is a page of https://www.example.com:8443. Nothing was typed.",
        ),
        (("type", "SENT", "https://www.example.com.evil.org"), "Nothing was typed."),
        (("type", "SENT", "https://evil.org/www.example.com"), "Nothing was typed."),
        (("type", "SENT", "http://[::1"), "Nothing was typed."),
        (("type", "SENT", "null"), "Nothing was typed."),
        (("type", "SENT", None), "belongs to another program, or to a page without a host. Nothing was typed."),
        (("type", "OTHER", None), "There is no secret 'OTHER' in this session; there are: SENT, TYPED."),
        (("header", "TYPED", None), "binds it with `--secret TYPED@HOST`."),
        (("header", "SENT", None), None),
    ],
)
def test_a_value_is_given_to_be_typed_where_it_may_and_nowhere_else(
    journal: Journal, secrets: Secrets, asked: tuple[str, str, str | None], told: str | None
) -> None:
    use, name, url = asked
    event = SecretAskedEvent.model_validate({"number": 1, "use": use, "name": name, "url": url})
    said = SecretUses(secrets, journal).decide(event)
    if told is not None:
        assert said.text is None
        assert told in str(said.refused)
    else:
        assert said.text == (secrets.placeholders[name] if use == "header" else VALUES[name])


class Asking:
    """A door whose cell asks for a secret again and again."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.said: list[str | None] = []

    async def execute(self, _: Execute):  # type: ignore[no-untyped-def]
        for number in range(self.times):
            yield SecretAskedEvent(number=number, use="type", name="TYPED")

    async def answer(self, _: int, said) -> None:  # type: ignore[no-untyped-def]
        self.said.append(said.text)


async def test_a_cell_that_asks_without_end_is_refused_and_fills_no_journal(journal: Journal, secrets: Secrets) -> None:
    door = Asking(300)
    request = Execute(number=4, language="python", code="", deadline_s=1)
    assert [event async for event in SecretUses(secrets, journal).answered(door, request)] == []  # type: ignore[arg-type]
    assert door.said == [VALUE] * 200 + [None] * 100
    journal.close("done")
    notes = [line.record for line in read_run(journal.folder).lines if isinstance(line.record, Note)]
    assert {(note.topic, note.cell, note.text) for note in notes} == {
        (
            "secret",
            4,
            "The secret TYPED was given to be typed into a field of another program, or of a page without a host, as the "
            "kernel host says.",
        )
    }
    assert len(notes) == 200


def test_settings_of_the_inside_have_names_alone() -> None:
    from cellwright.sandbox.kernel_host import host_settings

    settings = host_settings(SPEC, door="fd:3", forwards=(), chromium="/chromium")
    assert HostSettings.model_validate_json(settings.model_dump_json()).secrets == ("TYPED", "SENT")
    assert "example.com" not in settings.model_dump_json()
