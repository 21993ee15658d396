"""Where the door is: an inherited socket, or one that is bound."""

import socket

import pytest

from cellwright_kernel import server


def test_a_door_is_inherited_bound_or_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "made"))
        made.listen()
        with server.listener(f"fd:{made.detach()}") as inherited:
            assert inherited.getsockname() == str(tmp_path / "made")
    with server.listener(f"unix:{tmp_path / 'own'}"), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(tmp_path / "own"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "own"]
    with server.listener("tcp:127.0.0.1:0") as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
    with pytest.raises(ValueError, match="is none of fd:N, unix:PATH, tcp:HOST:PORT"):
        server.listener("pigeon:1")
