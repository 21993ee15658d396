"""Profiles that `cellwright probe` found out, on disk: one file for each server and model.

Flows in: a folder, an address, a model's name; a profile to keep. Flows out: the file; the profile that was kept.
Decided here: the file's name, that it is TOML which a person may write as well, and that one that cannot be read is
said, never guessed at.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from cellwright.errors import UsageError
from cellwright.model.profile import Profile, place_of

_PROFILE: Final = TypeAdapter(Profile)
_MAX_BYTES: Final = 64 * 1024
_OF: Final = ("base_url", "model", "probed_at")
"""What the file says besides the profile: of whom it is, and when it was found out."""


def path_of(folder: Path, base_url: str, model: str) -> Path:
    """Return the file of a server and a model, which need not exist."""
    base_url = base_url.rstrip("/")
    place = place_of(base_url)
    said = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{place.partition('://')[2] or place}-{model}").strip("-.")[:80]
    mark = hashlib.sha256(f"{base_url}\n{model}".encode()).hexdigest()[:8]
    return folder / f"{said}-{mark}.toml"


def store(folder: Path, base_url: str, model: str, profile: Profile, *, probed_at: str) -> Path:
    """Write a profile, whole or not at all; return its file.

    Args:
        folder: Of all profiles; made where it is missing.
        base_url: Of the server, up to `/v1`.
        model: Its name there.
        profile: What was found out.
        probed_at: When, as ISO 8601.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path_of(folder, base_url, model)
    values = {"base_url": place_of(base_url), "model": model, "probed_at": probed_at, **dataclasses.asdict(profile)}
    lines = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items() if value is not None
    ]  # JSON is TOML here
    half = path.with_suffix(f".{os.getpid()}.half")
    half.write_text("\n".join(["# What this server was found to do. `cellwright probe` writes it anew.", *lines, ""]))
    half.replace(path)
    return path


def stored(folder: Path, base_url: str, model: str) -> Profile | None:
    """Return the profile that was kept of a server and a model; None where none was.

    Raises:
        UsageError: The file cannot be read as one.
    """
    path = path_of(folder, base_url, model)
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    try:
        said = tomllib.loads(text[:_MAX_BYTES].decode())
        return _PROFILE.validate_python(
            {name: value for name, value in said.items() if name not in _OF}, extra="forbid"
        )
    except (ValueError, ValidationError) as error:
        wrong = str(error).splitlines()
        raise UsageError(
            f"The profile {path} cannot be read: {' '.join(wrong[:3])}. Usually it was edited, or is of another version. Nothing was "
            "sent. Mend it, delete it, or have `cellwright probe` write it anew."
        ) from error
