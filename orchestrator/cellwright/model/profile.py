"""What a model server can do: which parts of the Responses API it takes, and what it is sent instead of the others.

Flows in: a server's address, or a profile's name. Flows out: a `Profile`. Decided here: the profiles that are built in,
each with where it is known from; which of them an address stands for; and that a server nobody knows is taken for one
of the API's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from cellwright.errors import UsageError

ToolImages = Literal["native", "follow_up", "none"]
"""Pictures stand in the answer to a call, in a message of the user's after it, or are told of in words only."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """What a model server can do."""

    name: str
    """In a word: `openai`, `vllm`, ...; of one that was found out, where."""
    known_from: Literal["reading", "probe", "given"] = "reading"
    """Whether its documents and reports say so, or it was asked itself."""
    streaming: bool = True
    """It sends a response in pieces when asked to."""
    store_flag: bool = True
    """It takes `store`, so that it can be told to keep nothing."""
    chaining: bool = True
    """It goes on from a response that it stored, with all that led to it."""
    tool_images: ToolImages = "native"
    """How it is shown a picture that a call gave."""
    custom_tools: bool = True
    """It takes tools whose input is plain text."""
    phase: bool = True
    """It takes back the `phase` of its messages."""
    encrypted_reasoning: bool = True
    """It gives its reasoning encrypted when it stores nothing, and takes it back."""
    compaction: bool = False
    """It shortens a conversation itself: `context_management`."""
    compact_endpoint: bool = False
    """It shortens one that it is given: `POST /responses/compact`."""
    parallel_flag: bool = True
    """It takes `parallel_tool_calls`."""
    tool_choice: bool = True
    """It takes `tool_choice`; else the model is only told to make no further call."""
    strict_tools: bool = True
    """It takes tools that are `strict`."""
    cache_key: bool = False
    """It takes `prompt_cache_key`."""
    max_image_side: int | None = None
    """Pixels of a picture's longer side; absent: no limit is known."""
    max_images: int | None = None
    """Pictures in one request; absent: no limit is known."""


BUILT_IN: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(name="api"),  # a server that nobody knows: the whole API, but nothing that only some have
        Profile(name="openai", compaction=True, compact_endpoint=True, cache_key=True, max_images=1500),
        Profile(
            name="vllm",
            chaining=False,  # what it rebuilds has no calls and no answers in it (vllm-project/vllm#43244)
            custom_tools=False,
            encrypted_reasoning=False,
        ),
        Profile(
            name="ollama",
            chaining=False,
            custom_tools=False,
            encrypted_reasoning=False,
            tool_choice=False,
            store_flag=True,  # it takes and ignores it
        ),
        Profile(
            name="llama.cpp",
            chaining=False,
            tool_images="follow_up",  # "output of tool call should be input text" (ggml-org/llama.cpp#23542)
            custom_tools=False,
            encrypted_reasoning=False,
        ),
        Profile(name="lmstudio", custom_tools=False, encrypted_reasoning=False),
        Profile(name="openrouter", chaining=False, custom_tools=False),
    )
}
"""All from reading, none of them asked: `cellwright probe` asks one."""

_HOSTS: Final = {"openai.com": "openai", "openrouter.ai": "openrouter"}
_PORTS: Final = {11434: "ollama", 1234: "lmstudio", 8000: "vllm", 8080: "llama.cpp"}
"""Where these listen unless told otherwise."""


def built_in(name: str) -> Profile:
    """Return the profile of a name.

    Raises:
        UsageError: There is none.
    """
    profile = BUILT_IN.get(name)
    if profile is None:
        raise UsageError(
            f"There is no profile {name[:80]!r}. Nothing was sent. There is: {', '.join(BUILT_IN)}; `cellwright probe` finds out "
            "another."
        )
    return profile


def profile_of(base_url: str | None) -> Profile:
    """Return the profile that an address stands for; None is OpenAI's own."""
    if base_url is None:
        return BUILT_IN["openai"]
    address = urlsplit(base_url)
    host = (address.hostname or "").lower()
    for end, name in _HOSTS.items():
        if host == end or host.endswith(f".{end}"):
            return BUILT_IN[name]
    try:
        port = address.port
    except ValueError:
        port = None
    return BUILT_IN[_PORTS.get(port or 0, "api")]


def place_of(base_url: str) -> str:
    """Return an address without name, password and query, which may be credentials, too."""
    try:
        address = urlsplit(base_url)
    except ValueError:
        return "an address that is none"
    return address._replace(netloc=address.netloc.rpartition("@")[2], query="", fragment="").geturl()
