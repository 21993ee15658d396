"""Calls of the clipboard while nobody has room for them yet."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.waiting import GUARD_S

from cellwright_kernel.clipboard.clipboard import Clipboard

_CALLS = 200


def test_calls_wait_until_there_is_room_for_them(tmp_path: Path) -> None:
    place = tmp_path / "clipboard"
    with socket.socket(socket.AF_UNIX) as listening, ThreadPoolExecutor(_CALLS) as pool:
        listening.bind(str(place))
        listening.listen(1)  # room for two, so that the others are refused
        all_begun = threading.Barrier(_CALLS + 1)

        def read() -> str:
            all_begun.wait(GUARD_S)
            return Clipboard(str(place)).read()

        calls = [pool.submit(read) for _ in range(_CALLS)]
        all_begun.wait(GUARD_S)
        for _ in range(_CALLS):
            connection, _ = listening.accept()
            with connection, connection.makefile("rb") as request:
                request.readline()
                connection.sendall(b'{"bytes": 4}\nsame')
        assert [call.result(GUARD_S) for call in calls] == ["same"] * _CALLS
