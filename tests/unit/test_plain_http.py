"""Clients that speak plain HTTP load no certificates, which takes 25 ms each time; those that speak HTTPS check as ever."""

from __future__ import annotations

import ssl

import pytest

from cellwright.cli import service
from cellwright.cli.service import Address
from cellwright.model.responses import ResponsesModel


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[ssl.SSLContext]:
    """The contexts that certificates were loaded into."""
    loaded: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda context, *_, **__: loaded.append(context))
    return loaded


@pytest.mark.parametrize(
    ("url", "contexts"),
    [("http://127.0.0.1:9", 0), ("HTTP://127.0.0.1:9", 0), ("http://10.0.0.1:9", 0), ("https://127.0.0.1:9", 1)],
)
def test_a_command_loads_certificates_for_a_service_behind_https_only(loaded, url, contexts) -> None:
    with service._client(Address(url, "t" * 32), read_s=1) as client:
        assert client.follow_redirects is False  # else plain HTTP could lead to HTTPS
    assert len(loaded) == contexts


@pytest.mark.parametrize(("url", "contexts"), [("http://127.0.0.1:9/v1", 0), ("https://127.0.0.1:9/v1", 1)])
async def test_a_model_server_on_this_machine_needs_them_for_https_only(loaded, url, contexts) -> None:
    model = ResponsesModel("m", base_url=url)
    context = model._client._client._transport._pool._ssl_context  # type: ignore[attr-defined]
    await model.close()
    assert len(loaded) == contexts
    # it is followed when it redirects: to HTTPS, then, that is trusted by none of those that were not loaded
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
