"""Secrets: what the model's code can use and never sees.

Flows in: names and hosts from the Spec, values from whoever opens the session. Flows out: texts, events and records
without the values; placeholders, which the egress proxy replaces; and a value to be typed, when a cell asks.
"""

from cellwright.secrets.hiding import Hider, Stream
from cellwright.secrets.secrets import LEAST_CHARS, NONE, Secrets

__all__ = ["LEAST_CHARS", "NONE", "Hider", "Secrets", "Stream"]
