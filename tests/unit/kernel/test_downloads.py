"""Names of downloads: as suggested, as far as they are names; a number behind those that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright_kernel.downloads import give_name


@pytest.mark.parametrize(
    ("suggested", "name"),
    [
        ("report.csv", "report.csv"),
        ("data.tar.gz", "data.tar.gz"),
        ("Übersicht 表.pdf", "Übersicht 表.pdf"),
        (".bashrc", ".bashrc"),
        ("../../etc/passwd", "passwd"),
        ("a\0b/", "ab"),
        ("..", "download"),
        ("", "download"),
        ("/", "download"),
    ],
)
def test_a_suggested_name_stays_in_the_folder(tmp_path: Path, suggested: str, name: str) -> None:
    file = tmp_path / "guid"
    file.write_text("x")
    assert give_name(file, tmp_path / "Downloads", suggested) == tmp_path / "Downloads" / name
    assert (tmp_path / "Downloads" / name).read_text() == "x"


def test_a_name_too_long_keeps_its_ending(tmp_path: Path) -> None:
    file = tmp_path / "guid"
    file.write_text("x")
    path = give_name(file, tmp_path / "Downloads", "ü" * 300 + ".csv")
    assert path is not None
    assert path.name == "ü" * 98 + ".csv"


def test_a_taken_name_gets_a_number_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "Downloads"
    for number in range(3):
        (tmp_path / f"guid{number}").write_text(f"{number}")
        give_name(tmp_path / f"guid{number}", folder, "a.csv")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "a.csv": "0",
        "a (1).csv": "1",
        "a (2).csv": "2",
    }


def test_a_file_that_is_gone_is_no_fault(tmp_path: Path) -> None:
    assert give_name(tmp_path / "gone", tmp_path / "Downloads", "a.csv") is None
