"""What code finds when it launches a browser itself. That it starts is a case: B10."""

from __future__ import annotations

import json
from pathlib import Path

import playwright

from cellwright_kernel.playwright_browsers import playwright_environment


def test_every_chromium_that_playwright_asks_for_is_the_desktops(tmp_path: Path) -> None:
    chromium = tmp_path / "chromium"
    chromium.write_text("#!/bin/sh\n")
    found = playwright_environment(tmp_path / "browsers", str(chromium))
    assert found["PLAYWRIGHT_BROWSERS_PATH"] == str(tmp_path / "browsers")
    links = [path for path in (tmp_path / "browsers").rglob("*") if path.is_symlink()]
    assert {path.resolve() for path in links} == {chromium}
    listing = Path(playwright.__file__).parent / "driver" / "package" / "browsers.json"
    revisions = {one["name"]: one["revision"] for one in json.loads(listing.read_text())["browsers"]}
    folders = {path.relative_to(tmp_path / "browsers").parts[0] for path in links}
    assert folders == {
        f"chromium-{revisions['chromium']}",
        f"chromium_headless_shell-{revisions['chromium-headless-shell']}",
    }
