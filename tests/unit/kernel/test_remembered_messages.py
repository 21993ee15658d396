"""What the kernel host remembers of a kernel's messages does not grow with them."""

from __future__ import annotations

from pathlib import Path

from jupyter_client.session import Session

from cellwright_kernel.iopub import DIGESTS
from cellwright_kernel.kernel_process import KernelProcess


def test_of_many_messages_a_thousand_are_remembered(tmp_path: Path) -> None:
    receiving = KernelProcess("python", 1, (), tmp_path)._client.session
    receiving.key = b"key"
    sending = Session(key=b"key")
    for _ in range(3 * DIGESTS):
        _, parts = receiving.feed_identities(sending.serialize(sending.msg("status")))
        assert receiving.deserialize(parts)["header"]["msg_type"] == "status"
    assert 0 < len(receiving.digest_history) <= DIGESTS + 1
