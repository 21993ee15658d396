"""What commands make of a service's refusals."""

from __future__ import annotations

import json

import pytest

from cellwright.cli.service import refused
from cellwright.errors import AtCapacity, CellwrightError, CodeTooLarge, SandboxUnavailable, TokenRefused


@pytest.mark.parametrize("error", [CodeTooLarge, AtCapacity, SandboxUnavailable, TokenRefused, CellwrightError])
def test_a_refusal_is_the_error_that_it_was_in_the_service(error) -> None:
    told = refused(error.http_status, json.dumps({"error": "What happened.", "kind": error.__name__}))
    assert (type(told), str(told), told.exit_status) == (error, "What happened.", error.exit_status)


@pytest.mark.parametrize("kind", ["HTTPException", "annotations", "ClassVar", None, 7, "\ud800"])
def test_a_kind_that_is_none_of_ours_is_an_error_like_any_other(kind) -> None:
    told = refused(404, json.dumps({"error": "Not Found.", "kind": kind}))
    assert (type(told), str(told)) == (CellwrightError, "Not Found.")


@pytest.mark.parametrize("body", ["", "<html>", "[]", "{}", "null"])
def test_an_answer_without_a_sentence_is_told_by_its_status(body) -> None:
    assert str(refused(502, body)) == "The service answered with status 502."
