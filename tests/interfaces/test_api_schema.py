"""/api/schema and /api/docs: the published contract holds for every route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client

from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers
from tests.interfaces.contract import openapi

METHODS = ("get", "post", "put", "patch", "delete")
#: Below /api/ or not: the one route of the schema that asks for nobody.
OPEN = {"/healthz"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every documented ``(method, path, operation)``."""
    for where, methods in openapi()["paths"].items():
        yield from ((method, where, operation) for method, operation in methods.items() if method in METHODS)


def url_of(where: str) -> str:
    """The path with the test project's slug and ids that do not exist."""
    return re.sub(r"\{\w+\}", str(uuid4()), where.replace("{slug}", "demo"))


def test_the_schema_is_valid_and_generated_without_a_warning(tmp_path: Path) -> None:
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yml"))
    assert (tmp_path / "schema.yml").stat().st_size > 0


@pytest.mark.parametrize("where", ["/api/schema", "/api/docs", "/healthz"])
def test_the_schema_its_pages_and_the_probe_are_open(db: None, client: Client, where: str) -> None:
    assert client.get(where).status_code == 200


def test_every_route_of_the_specification_is_documented() -> None:
    below = "/api/projects/{slug}"
    assert {(method, where) for method, where, _ in operations()} == {
        ("get", "/healthz"),
        ("get", "/api/projects"),
        ("post", f"{below}/rag/search"),
        ("post", f"{below}/rag/reindex"),
        ("get", f"{below}/rag/runs"),
        ("get", f"{below}/rag/runs/{{id}}"),
        ("post", f"{below}/rag/runs/{{id}}/cancel"),
        ("get", f"{below}/rag/coverage"),
        ("get", f"{below}/rag/chunks/{{chunkId}}"),
        ("get", f"{below}/sessions"),
        ("post", f"{below}/sessions"),
        ("get", f"{below}/sessions/{{sessionId}}/events"),
        ("post", f"{below}/sessions/{{sessionId}}/events"),
        ("get", f"{below}/sessions/{{sessionId}}/events/{{eventId}}"),
        ("post", f"{below}/tools/search_code"),
    }


def test_every_documented_route_is_closed_to_anonymous_and_to_outsiders(db: None) -> None:
    people = callers(bare_project())
    for method, where, _ in operations():
        if where in OPEN:
            continue
        if "{slug}" in where:
            assert_closed_to_strangers(people, method.upper(), url_of(where))
        else:
            assert people.anonymous.generic(method, where).status_code == 401


def test_every_route_documents_its_failures() -> None:
    for _, where, operation in operations():
        told = set(operation["responses"])
        assert "503" in told
        if where in OPEN:
            continue
        assert "401" in told
        if "{slug}" in where:
            assert "404" in told
        if "requestBody" in operation:
            assert {"400", "411", "413", "415"} <= told, where
    by_id = {operation["operationId"]: set(operation["responses"]) for _, _, operation in operations()}
    assert {"200", "409", "429"} <= by_id["search"]
    assert {"200", "202", "403", "409", "429"} <= by_id["reindex"]


def test_an_origin_is_told_by_its_kind_alone() -> None:
    components = openapi()["components"]["schemas"]
    origin = components["Origin"]
    assert origin["discriminator"]["propertyName"] == "kind"
    assert set(origin["discriminator"]["mapping"]) == {"file", "session"}
    for kind, reference in origin["discriminator"]["mapping"].items():
        assert {"$ref": reference} in origin["oneOf"]
        one = components[reference.rsplit("/", 1)[1]]
        assert "kind" in one["required"]
        named = one["properties"]["kind"]["$ref"].rsplit("/", 1)[1]
        assert components[named]["enum"] == [kind]
    assert components["Hit"]["properties"]["origin"] == {"$ref": "#/components/schemas/Origin"}
    assert components["Citation"]["properties"]["origin"] == {"$ref": "#/components/schemas/Origin"}


def test_a_missing_score_is_null_and_never_absent() -> None:
    hit = openapi()["components"]["schemas"]["Hit"]
    assert set(hit["required"]) == set(hit["properties"])
    assert hit["properties"]["vectorScore"]["nullable"] is hit["properties"]["lexicalScore"]["nullable"] is True
