"""The flags that Chromium is started with.

Flows in: the settings, its profile and its port. Flows out: flags. Decided here: what it is told not to do by itself; that it
asks nobody for anything that no page asked for; and that without a way out it is given one that leads nowhere.
"""

from __future__ import annotations

from pathlib import Path

from cellwright_kernel.egress import PROXY_URL, has_proxy
from cellwright_kernel.repeatable import chromium_flags
from cellwright_kernel.wire import HostSettings

_NOBODY = "http://127.0.0.1:9"
"""No way out, and nothing to say so: a port below 1024, where no cell can listen. Loopback itself is never proxied."""

_FLAGS = (
    # With its last page Chromium would end, and be back after 1 s; with this, code that closes it can open the next one.
    "--keep-alive-for-test",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--disable-quic",
    "--disable-breakpad",
    "--disable-session-crashed-bubble",
    "--hide-crash-restore-bubble",
    "--disable-search-engine-choice-screen",
    # Without this and NetworkTimeServiceQuerying it asks update and clients2 at Google in its first seconds, whatever pages do.
    "--component-updater=url-source=http://127.0.0.1:9/",
    # Without the web pages that draw the address bar's popup, 52 MB and a renderer less (PSS 321 MB against 373).
    "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider,NetworkTimeServiceQuerying,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,"
    # Nor connections to the search engine, in case the user is going to ask it something.
    "PreconnectToSearch,"
    # Nor a renderer that waits for a page of another site.
    "SpareRendererForSitePerProcess,"
    # Nor a warning over every page that only has http.
    "HttpsUpgrades,HttpsFirstBalancedMode,HttpsFirstBalancedModeAutoEnable,HttpsFirstDialogUi",
    "--password-store=basic",
    "--ozone-platform=x11",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
    "--lang=en-US",
)


def browser_flags(settings: HostSettings, *, profile: Path, port: int) -> list[str]:
    """Return Chromium's flags in a sandbox.

    Args:
        settings: The way out, `chromium_sandbox` and `browser_folder` are used.
        profile: Folder of its profile.
        port: Where DevTools is to be; 0: at any port.
    """
    proxy = PROXY_URL if has_proxy(settings) else _NOBODY
    return [*flags_without_proxy(settings, profile=profile, port=port), f"--proxy-server={proxy}"]


def flags_without_proxy(settings: HostSettings, *, profile: Path, port: int) -> list[str]:
    """Return the same flags for a browser that may use this machine's network."""
    flags = [*_FLAGS, f"--user-data-dir={profile}", f"--remote-debugging-port={port}"]
    if settings.deterministic:
        flags += chromium_flags()
    if settings.browser_folder is not None:
        flags.append("--disable-dev-shm-usage")  # TMPDIR is used instead
    if not settings.chromium_sandbox:
        flags += ["--no-sandbox", "--test-type"]  # the second keeps the warning bar away, which would move the page
    return flags
