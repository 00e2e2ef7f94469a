"""What the tools take. One kind of argument is both its JSON Schema and its check, so the two cannot disagree.

The rules are those of the REST routes (``rag.api.requests``): JSON's own types and nothing that resembles them, blank
questions refused, unknown names refused, every range named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rag.core.errors import InvalidInput
from rag.core.paths import printable

#: Unknown names that one refusal lists, and characters of each: enough to see a typing error.
NAMES_SHOWN = 10
LONGEST_NAME = 100

UUID_PATTERN = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class Argument(Protocol):
    """One argument of a tool."""

    @property
    def required(self) -> bool:
        """Whether a call without it is refused."""
        ...

    @property
    def default(self) -> Any:
        """What a call without it gets."""
        ...

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...

    def read(self, value: Any) -> Any:
        """The value as the services take it. ``ValueError`` says what it must be, as the end of a sentence."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A search text of 1 to ``most`` characters, not only blanks; blanks around it do not count."""

    description: str
    most: int
    required: bool = True
    default: str = ""

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {
            "type": "string",
            "minLength": 1,
            "maxLength": self.most,
            "pattern": r"\S",
            "description": self.description,
        }

    def read(self, value: Any) -> str:
        """The text without the blanks around it."""
        if not isinstance(value, str) or not value.strip() or len(value.strip()) > self.most:
            raise ValueError(f"must be a text of 1 to {self.most} characters that are not all blank")
        return value.strip()


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text that may be empty."""

    description: str
    most: int
    required: bool = False
    default: str = ""

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {"type": "string", "maxLength": self.most, "default": self.default, "description": self.description}

    def read(self, value: Any) -> str:
        """The text as it came."""
        if not isinstance(value, str) or len(value) > self.most:
            raise ValueError(f"must be a text of at most {self.most} characters")
        return value


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A JSON integer of a range: no ``"5"``, no ``5.0``, no ``true``."""

    description: str
    least: int
    most: int
    default: int
    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {
            "type": "integer",
            "minimum": self.least,
            "maximum": self.most,
            "default": self.default,
            "description": self.description,
        }

    def read(self, value: Any) -> int:
        """The number."""
        if type(value) is not int or not self.least <= value <= self.most:
            raise ValueError(f"must be a whole number from {self.least} to {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some names, or none given."""

    description: str
    names: Sequence[str]
    default: str | None = None
    required: bool = False

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        default = {} if self.default is None else {"default": self.default}
        return {"type": "string", "enum": list(self.names), **default, "description": self.description}

    def read(self, value: Any) -> str:
        """The name."""
        if not isinstance(value, str) or value not in self.names:
            raise ValueError(f"must be one of: {', '.join(self.names)}")
        return value


@dataclass(frozen=True, slots=True)
class Choices:
    """At least one of some names; all of them where none are given."""

    description: str
    names: Sequence[str]
    required: bool = False

    @property
    def default(self) -> list[str]:
        """All of them."""
        return list(self.names)

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {
            "type": "array",
            "items": {"type": "string", "enum": list(self.names)},
            "minItems": 1,
            "maxItems": len(self.names),
            "default": self.default,
            "description": self.description,
        }

    def read(self, value: Any) -> list[str]:
        """The names."""
        is_list = isinstance(value, list) and 1 <= len(value) <= len(self.names)
        if not is_list or not all(isinstance(name, str) and name in self.names for name in value):
            raise ValueError(f"must be a list of 1 to {len(self.names)} of: {', '.join(self.names)}")
        return list(value)


@dataclass(frozen=True, slots=True)
class ChunkId:
    """The id of a chunk, in its usual 36-character form."""

    description: str
    required: bool = True
    default: None = None

    def schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        return {"type": "string", "format": "uuid", "pattern": UUID_PATTERN, "description": self.description}

    def read(self, value: Any) -> str:
        """The id."""
        if not isinstance(value, str) or not re.fullmatch(UUID_PATTERN, value):
            raise ValueError("must be the chunkId of a hit, such as 123e4567-e89b-12d3-a456-426614174000")
        return value


def input_schema(arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments; it knows no others."""
    return {
        "type": "object",
        "properties": {name: argument.schema() for name, argument in arguments.items()},
        "required": [name for name, argument in arguments.items() if argument.required],
        "additionalProperties": False,
    }


def read_arguments(arguments: Mapping[str, Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument's value, defaults filled in. Raises ``InvalidInput`` that names all that is wrong."""
    problems = []
    strangers = [f"'{printable(name[:LONGEST_NAME])}'" for name in given if name not in arguments]
    if strangers:
        problems.append(f"There is no argument {', '.join(strangers[:NAMES_SHOWN])}: give {', '.join(arguments)}.")
    values: dict[str, Any] = {}
    for name, argument in arguments.items():
        if name in given:
            try:
                values[name] = argument.read(given[name])
            except ValueError as error:
                problems.append(f"{name} {error}.")
        elif argument.required:
            problems.append(f"{name} is missing.")
        else:
            values[name] = argument.default
    if problems:
        raise InvalidInput(" ".join(problems))
    return values
