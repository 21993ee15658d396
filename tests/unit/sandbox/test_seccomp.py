"""The filter of system calls in its two forms."""

from __future__ import annotations

import json
from pathlib import Path

from cellwright.sandbox.seccomp import ABSENT, FAMILIES, REFUSED, browser_filter, browser_profile

IMAGE = Path(__file__).parents[3] / "sandbox_image"


def test_the_images_file_is_the_profile() -> None:
    """A change of the rules changes both; the failure shows the difference."""
    assert json.loads((IMAGE / "seccomp.json").read_text()) == browser_profile()


def test_the_profile_refuses_by_name_whatever_has_one() -> None:
    refused = {call["names"][0]: call["errnoRet"] for call in browser_profile()["syscalls"] if not call["args"]}
    assert refused == {**dict.fromkeys(REFUSED, 1), "clone3": 38}


def test_the_profile_leaves_only_its_families_of_sockets() -> None:
    calls = [call for call in browser_profile()["syscalls"] if call["names"] == ["socket"] and len(call["args"]) == 1]
    equal = {call["args"][0]["value"] for call in calls if call["args"][0]["op"] == "SCMP_CMP_EQ"}
    assert equal == set(range(64)) - set(FAMILIES)
    assert [call["args"][0]["value"] for call in calls if call["args"][0]["op"] == "SCMP_CMP_GE"] == [64]


def test_the_filter_is_whole_instructions_and_has_more_than_the_profile() -> None:
    assert len(browser_filter()) % 8 == 0
    assert all(number.to_bytes(4, "little") in browser_filter() for number in ABSENT[:3])
