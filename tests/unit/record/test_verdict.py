"""Whatever is changed in a run is found, and named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.errors import JournalCorrupt, RunNotFound
from cellwright.record import Blobs, Journal, Verdict, read_run, verify


def test_run_as_it_was_written_is_whole(closed_run: Path) -> None:
    assert verify(closed_run) == Verdict(folder=str(closed_run), status="whole", records=16, blobs=3)
    assert verify(closed_run).sentence == "16 records and 3 blobs checked: the run is as it was written."


def test_run_without_head_says_what_cannot_be_known(open_run: Path) -> None:
    assert verify(open_run) == Verdict(folder=str(open_run), status="open", records=15, blobs=3)
    assert verify(open_run).sentence == (
        "15 records and 3 blobs checked: nothing differs. "
        "The run has no seal at its end: what was cut off can't be known."
    )


def test_changed_byte_without_head_is_found_in_journal_and_run(open_run: Path) -> None:
    """But for the very last newline, which a crash may leave out too: then the line is torn, and that is said."""
    for path in (open_run / "journal.jsonl", open_run / "run.json"):
        data = path.read_bytes()
        for index in range(0, len(data) - 1, 31):
            path.write_bytes(data[:index] + bytes([data[index] ^ 0x01]) + data[index + 1 :])
            assert verify(open_run).status == "changed", (path.name, index)
        path.write_bytes(data)
    (open_run / "journal.jsonl").write_bytes((open_run / "journal.jsonl").read_bytes()[:-1] + b"x")
    verdict = verify(open_run)
    assert (verdict.status, verdict.records) == ("open", 14)
    assert [(problem.kind, problem.record) for problem in verdict.problems] == [("torn", 15)]


def test_bad_line_in_the_middle_is_named_and_hides_no_other(
    closed_run: Path, with_journal: Callable[[Path, bytes], Path]
) -> None:
    lines = (closed_run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = b"@@\n"
    copy = with_journal(closed_run, b"".join(lines))
    run = read_run(copy)
    assert [line.number for line in run.lines] == [1, 2, 3, 4, *range(6, 17)]
    assert [problem.model_dump() for problem in run.problems] == [
        {"kind": "changed", "file": "journal.jsonl", "record": 5, "what": "does not end in its hash"}
    ]
    with pytest.raises(JournalCorrupt, match="record 5 does not end in its hash"):
        run.must_be_whole()
    assert verify(copy).problems[0] == run.problems[0]


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        pytest.param(
            lambda lines: lines[:6] + lines[7:],
            [("changed", 8, "does not follow record 6: records were removed, repeated or put in another order")],
            id="removed",
        ),
        pytest.param(
            lambda lines: [*lines[:7], lines[6], *lines[7:]],
            [("changed", 7, "does not follow record 7: records were removed, repeated or put in another order")],
            id="repeated",
        ),
        pytest.param(
            lambda lines: lines[:-2],
            [("missing", 15, "is missing: head.json counts 16 records, 14 are there")],
            id="cut off",
        ),
        pytest.param(
            lambda lines: [*lines[:3], b"\n", *lines[3:]],
            [("changed", 4, "is empty")],
            id="empty line",
        ),
        pytest.param(
            lambda lines: [*lines[:-1], lines[-1].replace(b'"done"', b'"failed"')],
            [
                ("changed", 16, "does not match its hash"),
                ("missing", 16, "is missing: head.json counts 16 records, 15 are there"),
            ],
            id="edited",
        ),
        pytest.param(
            lambda lines: [line.replace(b'"code":"', b'"code":"# ') for line in lines],
            [("changed", 5, "does not match its hash; it is of cell 1")],
            id="code of a cell",
        ),
    ],
)
def test_change_of_whole_records_is_named(
    closed_run: Path,
    with_journal: Callable[[Path, bytes], Path],
    change: Callable[[list[bytes]], list[bytes]],
    problems: list[tuple[str, int, str]],
) -> None:
    lines = (closed_run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    verdict = verify(with_journal(closed_run, b"".join(change(lines))))
    assert verdict.status == "changed"
    assert [(p.kind, p.record, p.what) for p in verdict.problems if p.file == "journal.jsonl"] == problems


def test_missing_blob_is_named_with_its_record(closed_run: Path) -> None:
    run = read_run(closed_run)
    sha256 = run.cell(1).images[0].sha256
    (closed_run / "blobs" / sha256).unlink()
    verdict = verify(closed_run)
    assert [(p.kind, p.file, p.record) for p in verdict.problems] == [("missing", f"blobs/{sha256}", 7)]
    with pytest.raises(JournalCorrupt, match=f"Blob {sha256} cannot be read"):
        run.cell(1)


def test_leftover_of_a_killed_writer_is_named_and_no_change(closed_run: Path) -> None:
    (closed_run / "blobs" / ".half").write_bytes(b"half a pic")
    verdict = verify(closed_run)
    assert verdict.status == "whole"
    assert [(p.kind, p.file) for p in verdict.problems] == [("stray", "blobs/.half")]


def test_link_or_pipe_in_place_of_a_blob_is_not_followed(closed_run: Path, tmp_path: Path) -> None:
    blobs = Blobs(closed_run / "blobs")
    linked, piped, _ = blobs.names()
    (tmp_path / "outside").write_bytes(blobs.read(linked))
    blobs.path(linked).unlink()
    blobs.path(linked).symlink_to(tmp_path / "outside")
    blobs.path(piped).unlink()
    os.mkfifo(blobs.path(piped))
    assert [(p.kind, p.file) for p in verify(closed_run).problems] == [
        ("changed", f"blobs/{linked}"),
        ("changed", f"blobs/{piped}"),
    ]


@pytest.mark.parametrize("name", ["../run.json", "", "A" * 64, "0" * 63, "/etc/passwd", "0" * 64 + "\n"])
def test_name_that_is_no_hash_is_no_path(closed_run: Path, name: str) -> None:
    with pytest.raises(JournalCorrupt, match="is not the name of a blob"):
        Blobs(closed_run / "blobs").path(name)


def test_record_of_a_newer_version_is_named_and_hides_no_other(
    closed_run: Path, with_journal: Callable[[Path, bytes], Path]
) -> None:
    from cellwright.record.chain import seal, unseal

    lines = (closed_run / "journal.jsonl").read_bytes().splitlines()
    data = b"\n".join(lines[:-1]) + b"\n"
    body = unseal(lines[-1]).body
    data += seal({**body, "type": "approval", "v": 2})[0]
    copy = with_journal(closed_run, data)
    run = read_run(copy)
    assert len(run.lines) == 15
    assert [(problem.kind, problem.record) for problem in run.problems] == [("unknown", 16)]
    with pytest.raises(
        JournalCorrupt, match=r"journal\.jsonl: record 16 is of a kind .* A newer version of Cellwright"
    ):
        run.must_be_whole()
    with pytest.raises(JournalCorrupt, match="A newer version of Cellwright wrote it"):
        Journal.reopen(copy)


def test_record_of_a_newer_version_does_not_make_a_run_changed(open_run: Path) -> None:
    from cellwright.record.chain import seal, unseal

    journal = open_run / "journal.jsonl"
    last = unseal(journal.read_bytes().splitlines()[-1])
    line, _ = seal({"n": 16, "type": "approval", "v": 2, "previous": last.hash})
    journal.write_bytes(journal.read_bytes() + line)
    verdict = verify(open_run)
    assert (verdict.status, verdict.records) == ("open", 15)
    assert verdict.sentence == (
        "15 records and 3 blobs checked: nothing differs. "
        "The run has no seal at its end: what was cut off can't be known. "
        "Of a kind that only a newer version knows: record 16; as it was written, but what it names was not checked."
    )


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound):
        verify(tmp_path)
    with pytest.raises(RunNotFound):
        read_run(tmp_path)


def test_live_run_shows_no_torn_record(open_run: Path) -> None:
    """A reader may see the writer in the middle of a line; that is no fault."""
    journal = Journal.reopen(open_run)
    with (open_run / "journal.jsonl").open("ab") as file:
        file.write(b'{"n":16,"type":')
    run = read_run(open_run)
    assert (run.problems, run.status) == ((), "running")
    journal.leave()
