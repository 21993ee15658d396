"""The profile that Chromium is started on: its folder, its lock and its preferences.

Flows in: the settings, and where downloads go. Flows out: a folder that one Chromium may use. Decided here: the preferences,
beside which what Chromium wrote there stays; how large its first window is; and when a profile's lock is stale.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cellwright_kernel.child import NotUp
from cellwright_kernel.processes import is_alive
from cellwright_kernel.wire import HostSettings

_TOOLBAR = 87
"""Pixels that tab strip and toolbar take in Chromium 156: the first guess, corrected by measuring."""


class BrowserProfile:
    """One profile.

    Args:
        folder: Where it is; made when it is taken.
        settings: Viewport and desktop are used.
        downloads: Folder that downloads go to.
    """

    def __init__(self, folder: Path, settings: HostSettings, downloads: Path) -> None:
        self.folder = folder
        self._settings = settings
        self._downloads = downloads

    def take(self) -> None:
        """Make the folder, and remove its lock if the process that holds it is gone.

        Raises:
            NotUp: it lives, so that a second Chromium would only open a window in it and end.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale_lock(self.folder)

    def write_preferences(self) -> None:
        """Set what we want in the profile's preferences, and leave what Chromium wrote there."""
        path = self.folder / "Default" / "Preferences"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            kept = json.loads(path.read_bytes())
        except (FileNotFoundError, ValueError):
            kept = {}
        path.write_text(json.dumps(_merged(kept, self._preferences())))

    def _preferences(self) -> dict[str, Any]:
        width, height = self._settings.viewport_width, self._settings.viewport_height
        downloads = str(self._downloads)
        return {
            "browser": {
                "custom_chrome_frame": False,
                "check_default_browser": False,
                "has_seen_welcome_page": True,
                # --window-size would say the same, but overrides the size that a popup asks for.
                "window_placement": {
                    "left": 0,
                    "top": 0,
                    "right": width,
                    "bottom": height + _TOOLBAR,
                    "maximized": False,
                    "work_area_left": 0,
                    "work_area_top": 0,
                    "work_area_right": self._settings.width,
                    "work_area_bottom": self._settings.height,
                },
            },
            "profile": {
                "exit_type": "Normal",
                "exited_cleanly": True,
                "password_manager_enabled": False,
                "password_manager_leak_detection": False,
            },
            "credentials_enable_service": False,
            "autofill": {"profile_enabled": False, "credit_card_enabled": False},
            "translate": {"enabled": False},
            "search": {"suggest_enabled": False},
            "signin": {"allowed": False, "allowed_on_next_startup": False},
            "net": {"network_prediction_options": 2},  # one request a page asked for, not three
            "alternate_error_pages": {"enabled": False},
            "session": {"restore_on_startup": 5},
            "download": {"default_directory": downloads, "prompt_for_download": False, "directory_upgrade": True},
            "savefile": {"default_directory": downloads},
            "download_bubble": {"partial_view_enabled": False},  # it would lie over the page
            "https_only_mode_enabled": False,
            "https_first_balanced_mode_enabled": False,
        }


def _remove_stale_lock(profile: Path) -> None:
    lock = profile / "SingletonLock"
    try:
        owner = int(lock.readlink().name.rpartition("-")[2])  # HOSTNAME-PID
    except (FileNotFoundError, ValueError):
        return
    if is_alive(owner):
        raise NotUp(f"Another Chromium (pid {owner}) uses this profile. End it, then restart the browser.")
    for name in ("SingletonLock", "SingletonSocket", "SingletonCookie"):
        (profile / name).unlink(missing_ok=True)


def _merged(kept: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    both = dict(kept)
    for name, value in wanted.items():
        old = both.get(name)
        both[name] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return both
