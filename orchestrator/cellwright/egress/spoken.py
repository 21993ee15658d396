"""What is said in a connection that is no request any more: a tunnel, or what an upgrade led to.

Flows in: bytes of both directions. Flows out: whether they may go on, and the last words for whoever sent what may not.
Decided here: placeholders are refused in it for every host, the bound one too, as in a body; a request that was begun in such a
way that it was not read as one goes no further; a WebSocket is looked into, and is told why it ends, where no message of the
other side's would be cut in two by that.
"""

from __future__ import annotations

from cellwright.egress.placeholders import Misplaced, Placeholders, Refused
from cellwright.egress.tunnelled import Begun
from cellwright.egress.websocket import Frames, NoFrame, ending


class Spoken:
    """One connection.

    Args:
        placeholders: What must not be sent.
        host: Where it leads.
        port: The same.
        is_websocket: Whether both sides have agreed on that.
    """

    def __init__(self, placeholders: Placeholders, host: str, port: int, *, is_websocket: bool) -> None:
        self._place = f"{host}:{port}"
        self._is_websocket = is_websocket
        self._as_it_is = placeholders.watch("what was sent without encryption", host, port)
        self._messages = placeholders.watch("a WebSocket's message", host, port)
        self._controls = placeholders.watch("a WebSocket's message", host, port)
        self._out, self._in, self._begun = Frames(), Frames(), Begun()
        self._can_be_told = is_websocket
        self.refused: Refused | None = None
        """Why it was broken off; None while it was not."""

    def sent(self, data: bytes) -> bytes | None:
        """Look at what is about to go out; return None when it may, else the last words to whoever sent it, mostly none."""
        try:
            self._as_it_is.look(data)
            if self._is_websocket:
                self._look_into(data)
            else:
                self._look_for_request(data)
        except Refused as refused:
            self.refused = refused
            return ending(_reason(refused)) if self._can_be_told and self._in.is_between else b""
        return None

    def received(self, data: bytes) -> None:
        """Look at what is about to come in."""
        if self._can_be_told:
            try:
                for _ in self._in.said(data):
                    pass
            except NoFrame:
                self._can_be_told = False

    def _look_for_request(self, data: bytes) -> None:
        if self._begun.is_request(data):
            raise Refused(
                f"A request to {self._place} began in pieces or in a way of its own, so that it could not be looked through for what "
                "stands for a secret, and this session has secrets. It was not sent on. Send its first line at once, as HTTP has it."
            )

    def _look_into(self, data: bytes) -> None:
        try:
            said = list(self._out.said(data))
        except NoFrame as error:
            raise Refused(
                f"In a WebSocket to {self._place} {error}, so that it cannot be looked through for what stands for a secret, and "
                "this session has secrets. It was broken off. Send messages as they are."
            ) from error
        for watch, of_control in ((self._messages, False), (self._controls, True)):
            watch.look(b"".join(part for is_control, part in said if is_control == of_control))


def _reason(refused: Refused) -> str:
    """Return it in as few words as a frame has room for."""
    if isinstance(refused, Misplaced):
        return f"What stands for secret {refused.names[0][:20]} belongs into a header, not a message. It was not sent."
    return "A message was packed and cannot be looked through for secrets. It was not sent."
