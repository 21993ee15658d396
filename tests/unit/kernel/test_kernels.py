"""The kernels of a sandbox that is being ended."""

from pathlib import Path

import pytest

from cellwright_kernel.child import NotUp
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Execute


async def test_what_comes_while_they_stop_is_refused_in_words(tmp_path: Path) -> None:
    async with Kernels(str(tmp_path), tmp_path, dict) as kernels:
        pass
    with pytest.raises(NotUp) as refused:
        kernels.execute(Execute(number=1, language="python", code="1", deadline_s=1))
    assert str(refused.value) == (
        "The sandbox is being ended, and takes no request any more. Nothing was executed. Its variables, files, windows and "
        "pages go with it. Open a new session to go on."
    )
