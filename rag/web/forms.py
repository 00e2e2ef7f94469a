"""The search form: what the address bar may ask."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS

from rag.core.errors import InvalidInput
from rag.models.chunks import ScopeName
from rag.search import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT

#: The service names its arguments; the page has shorter names for some.
_FIELDS = {"query": "q", "scopes": "scope", "pathPrefix": "path"}


class SearchForm(forms.Form):
    """Names the fields and converts them; the search itself judges the question."""

    q = forms.CharField(
        label="Question", error_messages={"required": "Ask something: a question, a name, or a phrase in quotes."}
    )
    scope = forms.MultipleChoiceField(label="Search in", choices=ScopeName.choices, required=False)
    path = forms.CharField(label="Only files whose path begins with", required=False, max_length=1000)
    limit = forms.IntegerField(required=False, min_value=1, max_value=MAX_LIMIT)

    def arguments(self) -> dict[str, Any]:
        """What the search is called with."""
        cleaned = self.cleaned_data
        return {
            "query": cleaned["q"],
            "scopes": cleaned["scope"] or None,
            "path_prefix": cleaned["path"],
            "limit": cleaned["limit"] or DEFAULT_LIMIT,
        }

    def refuse(self, error: InvalidInput) -> None:
        """Show a refusal of the service by the field it names."""
        name = _FIELDS.get(error.field, error.field)
        message = str(error)
        self.add_error(name if name in self.fields else None, message[:1].upper() + message[1:])

    @property
    def ticked(self) -> frozenset[str]:
        """The scopes whose chips are ticked: those asked for, else the default ones."""
        asked = self.data.getlist("scope") if hasattr(self.data, "getlist") else []
        return frozenset(asked) & frozenset(ScopeName.values) or frozenset(map(str, DEFAULT_SCOPES))

    @property
    def other_errors(self) -> list[str]:
        """Refusals that belong to no field shown with a message of its own."""
        return [
            str(message)
            for name in ("scope", "path", "limit", NON_FIELD_ERRORS)
            for message in self.errors.get(name, ())
        ]
