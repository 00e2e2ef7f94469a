"""Checks an answer against the OpenAPI schema that the product itself publishes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator, FormatChecker


@lru_cache(maxsize=1)
def openapi() -> dict[str, Any]:
    """The schema as published."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return schema


def assert_conforms(value: Any, component: str) -> None:
    """The value has the component's shape, and no field that the schema does not name."""
    assert component in openapi()["components"]["schemas"]
    schema = {"$ref": f"#/components/schemas/{component}", "components": as_json_schema(openapi()["components"])}
    errors = Draft202012Validator(schema, format_checker=FormatChecker()).iter_errors(value)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def as_json_schema(node: Any) -> Any:
    """OpenAPI 3.0's ``nullable`` in JSON Schema's words, and objects closed to unnamed fields."""
    if isinstance(node, list):
        return [as_json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: as_json_schema(value) for key, value in node.items() if key != "nullable"}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return {"anyOf": [found, {"type": "null"}]} if node.get("nullable") is True else found
