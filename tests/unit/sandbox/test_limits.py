"""Nothing is called enforced that is not."""

import os

import pytest

from cellwright.sandbox.base import Limits
from cellwright.sandbox.limits import limits_in_force, memory_groups


def test_every_limit_of_a_spec_has_its_sentence(tmp_path):
    assert limits_in_force(Limits(), groups=tmp_path).keys() == Limits.model_fields.keys()


def test_memory_is_not_called_enforced(tmp_path):
    assert limits_in_force(Limits(), groups=tmp_path)["memory_bytes"] == (
        "not enforced: no memory group is set up (no cgroups are mounted)"
    )


@pytest.mark.parametrize(
    ("controllers", "clause"),
    [("cpu memory pids\n", "cgroup v2 is there"), ("hugetlb\n", "cgroup v2 without the memory controller")],
)
def test_second_version_of_groups_is_told_by_its_controllers(tmp_path, controllers, clause):
    (tmp_path / "cgroup.controllers").write_text(controllers)
    assert memory_groups(tmp_path) == clause


def test_first_version_of_groups_is_told_by_its_folders(tmp_path):
    (tmp_path / "memory").mkdir()
    assert memory_groups(tmp_path) == "cgroup v1 is there"


def test_groups_that_are_not_ours_are_called_so(tmp_path, monkeypatch):
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert memory_groups(tmp_path) == "cgroup v1 is there, and is not ours to write"
