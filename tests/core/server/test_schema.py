"""Hundreds of requests that the OpenAPI document allows or forbids: none is a surprise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from ggtts.core.server.app import Server
from ggtts.core.server.options import ServerOptions
from support.humming_family import HummingFamily
from support.patience import PATIENCE

from .conftest import online

schemathesis = pytest.importorskip("schemathesis")


EXAMPLES = 40
OPTIONS = ServerOptions(max_input_chars=40)

KNOWN_ONLY_TO_THE_MODEL = [schemathesis.checks.positive_data_acceptance]
"""Which languages, voices and recordings there are is no matter of schemas."""


def document() -> dict[str, Any]:
    from starlette.testclient import TestClient

    found: dict[str, Any] = TestClient(Server(HummingFamily(), OPTIONS).app).get("/openapi.json").json()
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with online(HummingFamily(), max_input_chars=OPTIONS.max_input_chars) as server:
        yield server.url


schema = schemathesis.openapi.from_dict(document())


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_every_answer_is_one_that_the_document_describes(case: Any, url: str) -> None:
    case.call_and_validate(base_url=url, timeout=PATIENCE, excluded_checks=KNOWN_ONLY_TO_THE_MODEL)
