"""What listens on TCP answers at once: no answer waits for the other side's delayed acknowledgement (40 ms)."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from cellwright.cli import serve
from cellwright.emulator import server as emulator
from cellwright_kernel import server


@pytest.mark.parametrize(
    "listen",
    [
        lambda: serve._listen("127.0.0.1", 0),
        lambda: emulator._listening("127.0.0.1", 0),
        lambda: server.listener("tcp:127.0.0.1:0"),
    ],
    ids=["gateway", "emulator", "kernel host"],
)
def test_connections_send_without_delay(listen: Callable[[], socket.socket]) -> None:
    with listen() as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
