"""The sentences for the model, where the words depend on numbers."""

import pytest

from cellwright_kernel.sentences import Left, interrupted, page_was_busy


@pytest.mark.parametrize(
    ("deadline_s", "said"), [(23.9996, "24"), (0.3, "0.3"), (14.27, "14.3"), (0.0504, "0.05"), (3600.0, "3600")]
)
def test_deadline_is_told_as_a_person_would(deadline_s, said):
    left = Left(language="python", kernel_kept=True, ended=(), running=(), keys=0)
    assert interrupted(left, deadline_s=deadline_s).startswith(
        f"The cell was interrupted at its deadline of {said} s. The Python kernel goes on"
    )


@pytest.mark.parametrize(
    ("url", "page"), [("http://a/", "the page http://a/"), ("", "a page that was on its way to another address")]
)
def test_a_page_without_an_address_is_told_of_as_well(url, page):
    assert page_was_busy(url, is_free=True).startswith(f"After the last cell {page} did not answer: its JavaScript")
