"""`secrets` as the Python kernel offers it, beside Python's own module of that name.

Flows in: the name, used with or without an import. Flows out: one object, or Python's module, each of which has what the
other has. Decided here: code that writes `import secrets` first means both, so the module gets `type` and `header`; and the
object answers for the module; and that a placeholder is no text to type. Where a session has no secrets, nothing of this is there.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.secrets.placeholder import TYPING
from cellwright_kernel.secrets.secrets import WHERE, Secrets, refuse_encrypted, refuse_placeholder


class BothSecrets(Secrets):
    """The session's secrets, and what Python's own module has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("secrets"), name)


def prepare_secrets(after_import: AfterImport) -> None:
    """Have Python's module offer the session's secrets as well, if there are any."""
    if WHERE not in os.environ:
        return
    after_import.do("secrets", _offer)
    after_import.do("playwright._impl.connection", _type_no_placeholder)
    after_import.do("http.client", _encrypt_no_placeholder)
    if "http.client" in sys.modules:
        _encrypt_no_placeholder(sys.modules["http.client"])
    if "secrets" in sys.modules:
        _offer(sys.modules["secrets"])


def _type_no_placeholder(module: ModuleType) -> None:
    """Have Playwright refuse to type what stands for a secret; what its clients tell its server goes through one call."""
    send = module.Connection.send_message_to_server

    def send_if_none(self: Any, channel: Any, method: str, params: Any, *more: Any, **options: Any) -> Any:
        if method in TYPING and isinstance(params, dict):
            for word in params.values():
                if isinstance(word, str):
                    refuse_placeholder(word)
        return send(self, channel, method, params, *more, **options)

    module.Connection.send_message_to_server = send_if_none


def _encrypt_no_placeholder(module: ModuleType) -> None:
    """Have urllib and requests say that nobody can put the value into what they encrypt; it would arrive as a placeholder."""
    put = module.HTTPConnection.putheader

    def put_if_none(self: Any, header: Any, *values: Any) -> None:
        if self.default_port == module.HTTPS_PORT:
            refuse_encrypted(b" ".join(value if isinstance(value, bytes) else str(value).encode() for value in values))
        put(self, header, *values)

    module.HTTPConnection.putheader = put_if_none


def _offer(module: ModuleType) -> None:
    ours = Secrets()
    module.type, module.header = ours.type, ours.header  # type: ignore[attr-defined]
