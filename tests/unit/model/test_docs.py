"""What docs/models.md says of profiles and retries is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from cellwright.model.asking import _OWN, Retrying
from cellwright.model.fallback import BACK_AFTER_S
from cellwright.model.profile import BUILT_IN

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text()
IMAGES = {"native": "in its answer", "follow_up": "in a message after it", "none": "no"}
YES = {True: "yes", False: "no"}


def test_every_profile_has_its_row_and_the_row_is_true() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")
    ]
    told = {row[0].strip("`"): row[2:7] for row in rows if row[0].strip("`") in BUILT_IN}
    assert told == {
        name: [
            YES[profile.chaining],
            IMAGES[profile.tool_images],
            YES[profile.custom_tools],
            YES[profile.encrypted_reasoning],
            YES[profile.compaction],
        ]
        for name, profile in BUILT_IN.items()
    }


def test_fields_that_cannot_be_chosen_are_named() -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| `--extra")]
    assert set(re.findall(r"`([a-z_]+)`", row)) == _OWN


def test_figures_of_patience_are_the_codes() -> None:
    patience = Retrying()
    said = " ".join(PAGE.split())
    assert (patience.attempts, patience.most_s, patience.first_s, patience.longest_s) == (8, 300, 0.5, 60)
    assert "Eight requests at most for one response, and 300 s of waiting" in said
    assert f"nothing came for {patience.idle_s:g} s; {patience.total_s:,.0f} s in all" in said
    assert f"It goes on for {BACK_AFTER_S:g} s" in said
