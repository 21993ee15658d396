"""Which model is asked, at which server, with what is known of that server.

Flows in: a model's name, an address, how it is asked. Flows out: a `Model`. Decided here: that a profile which is named
counts before one that was found out, and that before what an address stands for; where profiles are kept; and that
models which stand in for each other are all at one server. What needs the openai library is imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cellwright.model.asking import Asking
from cellwright.model.base import Model
from cellwright.model.profile import Profile, built_in, profile_of
from cellwright.model.stored_profiles import stored
from cellwright.record.folder import runs_folder

OPENAI: Final = "https://api.openai.com/v1"


def profiles_folder() -> Path:
    """Return the folder of the profiles that were found out, beside that of the runs; it need not exist."""
    return runs_folder().parent / "profiles"


def address_of(base_url: str | None) -> str | None:
    """Return the server's address, as the environment says where nobody else does; None: OpenAI's own."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or None


def profile_for(model: str, base_url: str | None, named: str | None = None) -> Profile:
    """Return what is known of a server.

    Args:
        model: Name of the model there.
        base_url: Its address; absent: as the environment says.
        named: A built-in profile, where one was named.

    Raises:
        UsageError: There is none of that name, or the one that was kept cannot be read.
    """
    if named is not None:
        return replace(built_in(named), known_from="given")
    address = address_of(base_url)
    return stored(profiles_folder(), address or OPENAI, model) or profile_of(address)


def model_at(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    asking: Asking | None = None,
    profile: str | None = None,
    fallbacks: Sequence[str] = (),
) -> Model:
    """Return a model at a server of the Responses API.

    Args:
        name: The model's name.
        base_url: Address of the server; absent: `OPENAI_BASE_URL`, or OpenAI.
        api_key: Absent: `OPENAI_API_KEY`.
        asking: How it is asked.
        profile: Name of a built-in profile; absent: what is known of the server.
        fallbacks: Models of the same server that are asked where it gives no answer, in order.

    Raises:
        UsageError: There is neither a key nor another server, or the server cannot do what is asked for.
    """
    from cellwright.model.fallback import FallbackModel  # noqa: PLC0415 - see above
    from cellwright.model.responses import ResponsesModel  # noqa: PLC0415 - see above

    authors: dict[str, str] = {}
    models = [
        ResponsesModel(
            one,
            base_url=base_url,
            api_key=api_key,
            asking=asking,
            profile=profile_for(one, base_url, profile),
            authors=authors,
        )
        for one in dict.fromkeys((name, *fallbacks))
    ]
    return models[0] if len(models) == 1 else FallbackModel(models)
