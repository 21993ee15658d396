"""The text a kernel wrote last, in shared memory, so that it survives the kernel's death.

Flows in: text as it is written, before it is sent. Flows out: after the process is gone, `read_last_words` gives the
kernel host what was written and perhaps never sent. Decided here: the layout. The file holds the last eight runs of
text, each with its number; a `stream` or `log` message carries the number of its run in `metadata.cellwright.seq`, and
what has a higher number than the last one received was lost on the way. Behind them stands which cell was begun last,
so that a cell whose kernel died in its first moment is not taken for one that never ran; and then where the bytes of a
pipe land, without the GIL: a thread that has read them and waits for it would take them into its death. A mapped page
belongs to the Linux kernel, so it survives SIGKILL, and a write costs a copy (0.5 µs) instead of a message (60 µs).
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from dataclasses import dataclass, replace
from pathlib import Path

SLOT_BYTES = 64 * 1024
"""Room for the text of one run."""

_SLOTS = 8
_HEAD = struct.Struct("<QIB127p")  # seq, length of the text, kind, msg_id of the cell
_HEAD_BYTES = 256
_STRIDE = _HEAD_BYTES + SLOT_BYTES
_LENGTH = struct.Struct("<I")
_LENGTH_AT = 8
_BEGUN = struct.Struct("<127p")
_BEGUN_AT = _SLOTS * _STRIDE
_LANDING_AT = _BEGUN_AT + 256
_BOX_BYTES = _LANDING_AT + _STRIDE
KINDS = ("stdout", "stderr", "log")


@dataclass(frozen=True, slots=True)
class LastWords:
    """One run of text that was written before the kernel died."""

    seq: int
    """Number of the run; counts from 1 within the kernel process."""
    kind: str
    """`stdout`, `stderr` or `log`."""
    msg_id: str
    """`msg_id` of the execute_request whose cell wrote it."""
    text: str


class LastWordsBox:
    """The writing side: one run is gathered at a time, and the seven before it are kept."""

    def __init__(self, path: Path | None) -> None:
        self._map = _mapping(path)
        self._base = 0
        self._landing = memoryview(self._map)[_LANDING_AT + _HEAD_BYTES :]
        self._landed = 0
        self.seq = 0
        self.used = 0
        """Bytes of the current run."""

    def begin(self, kind: str, msg_id: str) -> None:
        """Start the next run; the oldest is forgotten."""
        self.seq += 1
        self.used = 0
        self._base = (self.seq % _SLOTS) * _STRIDE
        _LENGTH.pack_into(self._map, self._base + _LENGTH_AT, 0)
        _HEAD.pack_into(self._map, self._base, self.seq, 0, KINDS.index(kind), msg_id.encode()[:126])

    def add(self, data: bytes) -> None:
        """Append to the current run; the caller has seen to it that it fits. The length is written last."""
        start = self._base + _HEAD_BYTES + self.used
        self._map[start : start + len(data)] = data
        self.used += len(data)
        _LENGTH.pack_into(self._map, self._base + _LENGTH_AT, self.used)

    def land(self, fd: int, kind: str, msg_id: str) -> bytes:
        """Read a piece from a pipe. Until `taken` is called it counts as written and not sent.

        How long it is nobody can say before there is the GIL again, so the place is all zeros before.
        """
        _HEAD.pack_into(self._map, _LANDING_AT, 0, SLOT_BYTES, KINDS.index(kind), msg_id.encode()[:126])
        self._landed = os.readv(fd, [self._landing])
        return bytes(self._landing[: self._landed])

    def taken(self) -> None:
        """What has landed is in a run."""
        _LENGTH.pack_into(self._map, _LANDING_AT + _LENGTH_AT, 0)
        self._landing[: self._landed] = bytes(self._landed)

    def begun(self, msg_id: str) -> None:
        """Note that a cell begins; before any of its code runs."""
        _BEGUN.pack_into(self._map, _BEGUN_AT, msg_id.encode()[:126])

    def fits(self, text: str) -> bool:
        """Whether a plain short text fits in the current run as it is."""
        return text.isascii() and self.used + len(text) <= SLOT_BYTES

    def text(self) -> str:
        """The current run."""
        start = self._base + _HEAD_BYTES
        return self._map[start : start + self.used].decode("utf-8", "replace")


def read_last_words(path: Path, after: int) -> list[LastWords]:
    """What a dead kernel wrote and did not send.

    Args:
        path: The connection file's path with `.last` appended.
        after: The highest `metadata.cellwright.seq` that was received from that kernel process; 0 when none was.

    Returns:
        The runs in the order they were written, and what had only been read from a pipe, as number 0; empty when nothing is missing or the file does not make sense.
        It is a stranger's data: bounded here, to be treated as text and nothing else.
    """
    raw = _read(path)
    slots = (raw[at : at + _STRIDE] for at in range(0, min(len(raw), _BEGUN_AT) - _STRIDE + 1, _STRIDE))
    found = [words for slot in slots if (words := _read_slot(slot)) and words.seq > after]
    landed = _read_slot(raw[_LANDING_AT:]) if len(raw) == _BOX_BYTES else None
    landed = landed and replace(landed, text=landed.text.rstrip("\0"))
    return [*sorted(found, key=lambda words: words.seq), *([landed] if landed and landed.text else [])]


def read_begun(path: Path) -> str:
    """The `msg_id` of the cell that a dead kernel had begun last; empty when it had begun none. As above."""
    begun = _read(path)[_BEGUN_AT : _BEGUN_AT + _BEGUN.size]
    return _BEGUN.unpack(begun)[0].decode("utf-8", "replace") if len(begun) == _BEGUN.size else ""


def _read(path: Path) -> bytes:
    """The box's bytes; none when there is no box."""
    try:
        # code in the kernel may have put anything in the file's place: a link is not followed, a pipe not waited for
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(fd, _BOX_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)
    except OSError:
        return b""


def _read_slot(slot: bytes) -> LastWords | None:
    seq, length, kind, msg_id = _HEAD.unpack_from(slot)
    if not (0 < length <= SLOT_BYTES and kind < len(KINDS)):
        return None
    text = slot[_HEAD_BYTES : _HEAD_BYTES + length].decode("utf-8", "replace")
    return LastWords(seq, KINDS[kind], msg_id.decode("utf-8", "replace"), text)


def _mapping(path: Path | None) -> mmap.mmap:
    """A file beside the connection file; all its pages are taken at once, 578 KiB.

    On a full disk a page that is not there yet could not be made when it is first written: that is SIGBUS, and the
    kernel's death. Where the file cannot be had whole there is none, and what this kernel says last may be lost with it.
    """
    if path is None:
        return mmap.mmap(-1, _BOX_BYTES)
    try:
        return _mapped_file(path)
    except OSError:
        return mmap.mmap(-1, _BOX_BYTES)


def _mapped_file(path: Path) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _BOX_BYTES)
        return mmap.mmap(fd, _BOX_BYTES)
    except BaseException:
        path.unlink()  # what was taken so far is of no use, and it is space
        raise
    finally:
        os.close(fd)
