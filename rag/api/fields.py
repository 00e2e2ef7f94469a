"""Request fields that take JSON's own types and nothing that resembles them; bodies that refuse unknown fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from rag.core.events import MOST_NESTED

#: How many unknown field names one answer lists: enough to see a typing error, little enough for a hostile body.
UNKNOWN_FIELDS_SHOWN = 10


class Text(serializers.CharField):
    """A JSON string, kept as it came: DRF alone would take numbers and strip blanks. NUL and surrogates are refused."""

    default_error_messages = {"invalid": "Must be a string."}

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("trim_whitespace", False)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        """The string."""
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Question(Text):
    """A search text: not only blanks."""

    def to_internal_value(self, data: Any) -> str:
        """The string."""
        value = super().to_internal_value(data)
        if not value.strip():
            self.fail("blank")
        return value


class WholeNumber(serializers.IntegerField):
    """A JSON integer of a range: no ``"5"``, no ``5.0``, no ``true``. Every refusal names the range."""

    def __init__(self, *, least: int, most: int, **kwargs: Any) -> None:
        said = f"Must be a whole number from {least} to {most}."
        kinds = ("invalid", "null", "min_value", "max_value")
        kwargs["error_messages"] = dict.fromkeys(kinds, said)
        super().__init__(min_value=least, max_value=most, **kwargs)

    def to_internal_value(self, data: Any) -> int:
        """The number."""
        if type(data) is not int:
            self.fail("invalid")
        return data


class Truth(serializers.BooleanField):
    """``true`` or ``false``, nothing else."""

    default_error_messages = {"invalid": "Must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        """The boolean."""
        if type(data) is not bool:
            self.fail("invalid")
        return data


class Choice(serializers.ChoiceField):
    """One of some strings; the refusal names them and never repeats what was sent."""

    def __init__(self, choices: Any, **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f"Must be one of: {', '.join(map(str, self.choices))}."

    def to_internal_value(self, data: Any) -> str:
        """The string."""
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice")
        return data


class JSONObject(serializers.DictField):
    """Any JSON object that PostgreSQL can store: no NUL, no lone surrogate, no infinite number, not too deep."""

    default_error_messages = {
        "not_a_dict": "Must be a JSON object.",
        "unstorable": "Holds a null character, a lone surrogate or a number beyond all bounds, which cannot be stored.",
        "nested": f"Is nested more than {MOST_NESTED} levels deep.",
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The object, as it came."""
        if not isinstance(data, dict):
            self.fail("not_a_dict")
        level: list[Any] = [data]
        depth = 0
        while level:
            depth += 1
            if depth > MOST_NESTED:
                self.fail("nested")
            level = [inner for value in level for inner in self._checked(value)]
        return data

    def _checked(self, value: Any) -> list[Any]:
        """What is nested in the value; refuses what a ``jsonb`` column would."""
        if isinstance(value, dict):
            return [*value.keys(), *value.values()]
        if isinstance(value, list):
            return value
        if isinstance(value, str) and not is_storable(value):
            self.fail("unstorable")
        if isinstance(value, float) and not math.isfinite(value):
            self.fail("unstorable")
        return []


class StrictSerializer(serializers.Serializer[Any]):
    """A body of known fields: an unknown one is refused by its name, so that a typing error is never ignored."""

    default_error_messages = {"invalid": "The body must be a JSON object."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The validated fields."""
        strangers = [key for key in data if key not in self.fields] if isinstance(data, Mapping) else []
        errors: dict[str, Any] = {key: ["There is no such field."] for key in strangers[:UNKNOWN_FIELDS_SHOWN]}
        try:
            valid: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not strangers:
                raise
            errors |= error.detail if isinstance(error.detail, dict) else {}
        if errors:
            raise serializers.ValidationError(errors)
        return valid


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can store the text: it holds no NUL and no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
