"""What every value on the wire is made of.

Flows in: nothing; these are types. Flows out: the base of all that crosses the line, and numbers that every reader can hold. Decided
here: nothing on the wire changes, and a field that nobody knows is refused.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0, lt=2**53)]
"""A number that every reader of JSON can hold."""


class Value(BaseModel):
    """Base of everything on the wire: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")
