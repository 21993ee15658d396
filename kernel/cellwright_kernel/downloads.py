"""Downloads land in `~/Downloads` under the names they suggest, whoever started them.

Flows in: DevTools events of the browser. Flows out: files. Decided here: where Playwright lets Chromium put downloads once
it is attached (one folder for both languages, under names without meaning), and that each one which is complete gets
its own name in `~/Downloads` as well, a number behind it where the name is taken, as Chromium does it by itself.

A name is a second one of the same file (a hard link), so it costs no room, appears whole, and Playwright's own way to the
file (`download.path()`, `save_as`) stays as it is.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from pathlib import Path
from typing import Any, Final

from cellwright_kernel.devtools import Devtools, DevtoolsError

_NAME_BYTES: Final = 200
"""Of a suggested name; file systems take 255, and a number may follow."""
_SUFFIX_CHARS: Final = 40


class Downloads:
    """The downloads of one browser, seen through a connection of their own.

    Args:
        home: The home of cells.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / "Downloads"
        """Where downloads are looked for."""
        self.playwrights = home / ".cache" / "cellwright" / "downloads"
        """Where Playwright has them put. On the same file system, so that they can have a second name."""
        self._devtools: Devtools | None = None
        self._suggested: dict[str, str] = {}

    async def follow(self, url: str) -> None:
        """Begin to hear of downloads; call it before anybody else can attach.

        Raises:
            DevtoolsError: the browser does not answer.
        """
        await self.stop()
        self._devtools = await Devtools.open(url)
        # `default`: where they go while nobody else says so; the preferences name `~/Downloads`
        await self._devtools.call("Browser.setDownloadBehavior", behavior="default", eventsEnabled=True)

    async def keep(self) -> None:
        """Name each download that is complete, until the connection is gone."""
        try:
            while self._devtools is not None:
                await self._take(await self._devtools.event())
        except DevtoolsError:
            return

    async def stop(self) -> None:
        """Give the connection back; safe to call twice."""
        devtools, self._devtools = self._devtools, None
        self._suggested.clear()
        if devtools is not None:
            await devtools.close()

    async def _take(self, event: dict[str, Any]) -> None:
        details = event["params"]
        match event["method"]:
            case "Browser.downloadWillBegin":
                self._suggested[details["guid"]] = details["suggestedFilename"]
            case "Browser.downloadProgress" if details["state"] != "inProgress":
                suggested = self._suggested.pop(details["guid"], "")
                file = Path(details.get("filePath") or self.playwrights / details["guid"])
                if details["state"] == "completed" and file.parent == self.playwrights:
                    await asyncio.to_thread(give_name, file, self.folder, suggested)
            case _:
                pass


def give_name(file: Path, folder: Path, suggested: str) -> Path | None:
    """Give a file the suggested name, or the next free one like it, in a folder; return its path.

    Nothing happens, and None is returned, when the file is gone already or there is no room.
    """
    name = _plain(suggested)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            path = folder / (f"{name.stem} ({number}){name.suffix}" if number else name.name)
            try:
                _second_name(file, path)
            except FileExistsError:
                continue
            return path
    except OSError:
        pass
    return None


def _second_name(file: Path, path: Path) -> None:
    try:
        path.hardlink_to(file)
    except FileExistsError:
        raise
    except OSError:  # another file system
        with file.open("rb") as source, path.open("xb") as target:
            shutil.copyfileobj(source, target)


def _plain(suggested: str) -> Path:
    """Return a name without folders that a file system takes."""
    name = Path(suggested.replace("\0", ""))
    if name.name in {"", ".."}:
        return Path("download")
    suffix = name.suffix[:_SUFFIX_CHARS]
    stem = name.stem.encode(errors="replace")[: _NAME_BYTES - len(suffix.encode(errors="replace"))]
    return Path(stem.decode(errors="ignore") + suffix)
