"""The sentences for the model, where the words depend on numbers."""

import pytest

from cellwright_kernel.sentences import Left, interrupted


@pytest.mark.parametrize(
    ("deadline_s", "said"), [(23.9996, "24"), (0.3, "0.3"), (14.27, "14.3"), (0.0504, "0.05"), (3600.0, "3600")]
)
def test_deadline_is_told_as_a_person_would(deadline_s, said):
    left = Left(language="python", kernel_kept=True, ended=(), running=(), keys=0)
    assert interrupted(left, deadline_s=deadline_s).startswith(
        f"The cell was interrupted at its deadline of {said} s. The Python kernel goes on"
    )
