"""The field of a page that keys go to.

Flows in: the browser's DevTools, and a key that types nothing. Flows out: which field of which page or frame the key came to,
where that is from, and text in it that shows as dots. Decided here: that it is found by what keys do, not by what pages say
of their focus: Playwright has each page believe that it has it; that where no page gets the key, the one page that has a
field to type into is given the keyboard; and how it is covered: by a style of the field itself, so
that it holds in every picture, of the screen or of the page, wherever the page is scrolled to. What is asked is asked in a
world of its own, which the page's own JavaScript cannot reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cellwright_kernel.devtools import Devtools, DevtoolsError
from cellwright_kernel.secrets.errors import SecretError

_WORLD: Final = "cellwright-secrets"
_ANSWER_S: Final = 1.0
_ALL_S: Final = 10.0
_KEY_S: Final = 2.5
"""How long the key may take to the page; 10 ms are usual, and on a machine with six times its work a second was too little."""
_TAP_AGAIN_S: Final = 0.5
"""A key gets lost while a click moves the keyboard to a frame of another site: the page's process knows by then that it is not
meant, and the browser still sends it there."""
_LOOK_EVERY_S: Final = 0.02
_FRAMES: Final = 200

_LISTEN: Final = """(() => {
  globalThis.came = null;
  const take = (event) => { if (event.isTrusted) globalThis.came = event.composedPath()[0]; };
  addEventListener('keydown', take, { capture: true, once: true });
})()"""
_TAKES: Final = """((field) => {
  const types = ['button', 'checkbox', 'color', 'file', 'hidden', 'image', 'radio', 'range', 'reset', 'submit'];
  const takes = field.isContentEditable || (field.localName === 'textarea' && !field.readOnly)
    || (field.localName === 'input' && !types.includes(field.type) && !field.readOnly)
    || field.localName?.includes('-');  // it may hold a field in a shadow of its own
  return Boolean(takes && !field.disabled);
})"""
_CAME: Final = f"""(() => {{
  const field = globalThis.came;
  if (!field) return null;
  const before = globalThis.field;
  globalThis.field = field;
  return [self.origin, {_TAKES}(field), String(field.localName ?? ''), field === before];
}})()"""
_IS_READY: Final = f"""(() => {{
  const field = document.activeElement;
  return document.visibilityState === 'visible' && Boolean(field) && {_TAKES}(field);
}})()"""
_COVER: Final = Path(__file__).with_name("cover.js").read_text()
_NO_FIELD: Final = (
    "No field of a page has the keyboard; the browser's own address bar may, or nothing in the page. Nothing was typed. Click "
    "into the field first."
)

Tap = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Frame:
    session: str
    context: int


@dataclass(frozen=True)
class _Came:
    """Where the key came to."""

    origin: str
    takes_text: bool
    tag: str
    is_same: bool
    """True when it is what the last key came to."""


class PageField:
    """One field, while the connection lasts. Made by `page_field`."""

    def __init__(self, devtools: Devtools, frames: list[_Frame], tap: Tap) -> None:
        self._devtools = devtools
        self._frames = frames
        self._tap = tap
        self._frame: _Frame | None = None
        self.url: str | None = None
        """Origin of its page or frame; None where that has none."""

    async def find(self) -> None:
        """Find it.

        Raises:
            SecretError: there is none, or it takes no text.
        """
        came = await self._came_to()
        if came is None and await self._brought_to_front():
            came = await self._came_to()
        if came is None:
            raise SecretError(_NO_FIELD)
        self._frame, it = came
        if not it.takes_text:
            raise SecretError(
                f"What has the keyboard in the page is <{it.tag[:40]}>, which takes no text. Nothing was typed. Click into the "
                "field first."
            )
        self.url = it.origin[:2048] if it.origin != "null" else None

    async def cover(self) -> None:
        """Have it show dots, as a password's field does, as long as it is there.

        Raises:
            SecretError: it does not.
        """
        if self._frame is None or await self._evaluate(self._frame, _COVER) is not True:
            raise SecretError("The field could not be covered. Nothing was typed. Click into it again.")

    async def still_has_keyboard(self) -> bool:
        """Try once more where keys go."""
        came = await self._came_to()
        return came is not None and came[0] == self._frame and came[1].is_same

    async def _brought_to_front(self) -> bool:
        """Give the keyboard to the one page whose own focus is in a field.

        By JavaScript's or Playwright's `focus` alone the keyboard stays with the browser's address bar.
        """
        ready = [frame for frame in self._frames if await self._is_ready(frame)]
        if len(ready) != 1:
            return False
        with suppress(DevtoolsError):
            await self._devtools.call("Page.bringToFront", ready[0].session, _ANSWER_S)
            return True
        return False

    async def _is_ready(self, frame: _Frame) -> bool:
        with suppress(DevtoolsError):
            return await self._evaluate(frame, _IS_READY) is True
        return False

    async def _came_to(self) -> tuple[_Frame, _Came] | None:
        listening = [frame for frame in self._frames if await self._listens(frame)]
        clock = asyncio.get_running_loop().time
        tap_at, end = clock(), clock() + _KEY_S
        while (now := clock()) < end:
            if now >= tap_at:
                await self._tap()
                tap_at = now + _TAP_AGAIN_S
            for frame in listening:
                with suppress(DevtoolsError):
                    match await self._evaluate(frame, _CAME):
                        case [str(origin), bool(takes), str(tag), bool(is_same)]:
                            return frame, _Came(origin, takes, tag, is_same)
            await asyncio.sleep(_LOOK_EVERY_S)
        return None

    async def _listens(self, frame: _Frame) -> bool:
        try:
            await self._evaluate(frame, _LISTEN)
        except DevtoolsError:  # it is gone, or busy: then it would not show what is typed either
            return False
        return True

    async def _evaluate(self, frame: _Frame, expression: str) -> object:
        reply = await self._devtools.call(
            *("Runtime.evaluate", frame.session, _ANSWER_S),
            contextId=frame.context,
            expression=expression,
            returnByValue=True,
        )
        if "exceptionDetails" in reply:
            raise DevtoolsError("The page threw.")
        value: object = reply["result"].get("value")
        return value


@asynccontextmanager
async def page_field(devtools_url: str, tap: Tap) -> AsyncIterator[PageField]:
    """Give the field that keys go to, for the block.

    Args:
        devtools_url: Of the browser.
        tap: Presses a key that types nothing.

    Raises:
        SecretError: there is none.
    """
    try:
        async with Devtools.opened(devtools_url) as devtools:
            field = await _found(devtools, tap)
            yield field
    except DevtoolsError as error:
        raise SecretError(f"The browser did not answer ({error}). Look at the screen, and try again.") from None


async def _found(devtools: Devtools, tap: Tap) -> PageField:
    try:
        async with asyncio.timeout(_ALL_S):
            field = PageField(devtools, await _frames(devtools), tap)
            await field.find()
    except TimeoutError:
        raise SecretError(
            "The browser's pages did not answer. Nothing was typed. Look at the screen, and try again."
        ) from None
    return field


async def _frames(devtools: Devtools) -> list[_Frame]:
    """Return every frame of every page; those of other sites are targets of their own."""
    targets = await devtools.call("Target.getTargets", filter=[{"type": "page"}, {"type": "iframe"}])
    found: list[_Frame] = []
    for target in targets["targetInfos"]:
        with suppress(DevtoolsError):
            attached = await devtools.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            session = str(attached["sessionId"])
            tree = await devtools.call("Page.getFrameTree", session, _ANSWER_S)
            for frame_id in _ids(tree["frameTree"]):
                if len(found) < _FRAMES:
                    found += await _world(devtools, session, frame_id)
    return found


async def _world(devtools: Devtools, session: str, frame_id: str) -> list[_Frame]:
    try:
        made = await devtools.call("Page.createIsolatedWorld", session, _ANSWER_S, frameId=frame_id, worldName=_WORLD)
    except DevtoolsError:  # a frame of another site, which is a target of its own
        return []
    return [_Frame(session, int(made["executionContextId"]))]


def _ids(tree: dict[str, Any]) -> list[str]:
    below = [frame_id for child in tree.get("childFrames", ()) for frame_id in _ids(child)]
    return [str(tree["frame"]["id"]), *below]
