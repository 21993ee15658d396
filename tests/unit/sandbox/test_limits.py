"""Nothing is called enforced that is not."""

from cellwright.sandbox.base import Limits
from cellwright.sandbox.control_groups import ControlGroups
from cellwright.sandbox.limits import limits_here, limits_in_force
from cellwright.sandbox.memory_shares import browser_bytes, process_bytes

GIB = 1024**3
NONE = ControlGroups(memory="no groups here", cpu="no shares here")


def test_every_limit_of_a_spec_has_its_sentence():
    assert limits_in_force(Limits(), NONE).keys() == Limits.model_fields.keys()
    assert limits_here(Limits()).keys() == Limits.model_fields.keys()


def test_memory_without_a_group_is_enforced_for_processes_and_for_nothing_else():
    assert limits_in_force(Limits(), NONE)["memory_bytes"] == (
        "3489660928 for each process of cells by rlimit; not enforced for the sandbox as a whole, nor for its browser: "
        "no groups here"
    )


def test_a_process_leaves_something_to_the_rest_of_the_sandbox_and_has_what_playwright_needs():
    assert process_bytes(Limits(memory_bytes=4 * GIB)) == 4 * GIB - 768 * 1024**2
    assert process_bytes(Limits(memory_bytes=GIB)) == 704 * 1024**2


def test_the_browser_leaves_as_much_and_has_at_least_half():
    assert browser_bytes(Limits(memory_bytes=4 * GIB)) == 4 * GIB - 768 * 1024**2
    assert browser_bytes(Limits(memory_bytes=GIB)) == GIB // 2
