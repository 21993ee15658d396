"""The sentences for the model, where the words depend on numbers."""

import pytest

from cellwright_kernel.sentences import Left, interrupted, page_silent, page_was_busy


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


def test_a_silent_page_is_named_in_the_words_of_the_language_that_is_told():
    assert page_silent("http://a/", "F00D", None, "about:blank", "python") == (
        "The page http://a/ does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes without end, "
        "or its process was stopped. Until it answers it is not in `context.pages`; the others are, and `page` is about:blank. To "
        'close it: `await (await browser.new_browser_cdp_session()).send("Target.closeTarget", {"targetId": "F00D"})`'
    )
    assert page_silent("http://a/", "F00D", "http://b/", "about:blank", "javascript") == (
        "A page is still loading http://b/: its server has not answered yet. Until it does, it is not in `context.pages()`; the others "
        "are, and `page` is about:blank. To close it: `await (await browser.newBrowserCDPSession()).send('Target.closeTarget', { "
        "targetId: 'F00D' })`"
    )


def test_long_addresses_are_cut_wherever_they_stand():
    url = "http://a/" + "x" * 200
    said = page_silent(url, "F00D", url, url, "python")
    assert said.count(f"{url[:100]}...") == 2
    assert url[:101] not in said
    assert f"{url[:100]}..." in page_was_busy(url, is_free=False)
