"""The project's form: what it accepts is what ``rag.projects.register`` accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.http import QueryDict

from rag.admin.generic import ProjectModelForm
from rag.conf import conf
from rag.core.errors import InvalidInput, SourceUnavailable
from rag.core.paths import folder_of
from rag.core.repository_address import mask, parse_address, validate_credentials_env, validate_ref
from rag.models import Project, ProjectState
from rag.projects import local_head

#: A change of one of these asks whether the repository can be read.
SOURCE_FIELDS = frozenset({"repository", "ref", "state"})


class ProjectForm(ProjectModelForm):
    """Registers a project, and changes everything but its slug."""

    class Meta:
        model = Project
        fields = (
            "slug",
            "name",
            "repository",
            "ref",
            "credentials_env",
            "language",
            "docs_path",
            "adr_path",
            "state",
            "allow_remote_embedding",
        )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Read-only for who may only look.
        for name in self.fields.keys() & {"docs_path", "adr_path"}:
            self.fields[name].required = False

    def clean_name(self) -> str:
        """Single spaces."""
        return " ".join(str(self.cleaned_data["name"]).split())

    def clean_repository(self) -> str:
        """The address in normal form; a refused one is not shown again as typed, it may hold a credential."""
        typed = self.cleaned_data["repository"]
        try:
            return str(parse_address(typed, roots=conf().repository_roots))
        except InvalidInput as error:
            shown = QueryDict(mutable=True)
            shown.update(self.data)
            shown[self.add_prefix("repository")] = mask(typed)
            self.data = shown
            raise forms.ValidationError(str(error)) from None

    def clean_ref(self) -> str:
        """A ref by git's rules."""
        return self._checked("ref", validate_ref)

    def clean_credentials_env(self) -> str:
        """A variable's name, never a credential."""
        return self._checked("credentials_env", validate_credentials_env)

    def clean_docs_path(self) -> str:
        """A folder inside the repository."""
        return self._checked("docs_path", lambda value: folder_of(value, field="docs_path"))

    def clean_adr_path(self) -> str:
        """A folder inside the repository."""
        return self._checked("adr_path", lambda value: folder_of(value, field="adr_path"))

    def clean(self) -> dict[str, Any]:
        """A ready project's local repository must open and have the ref."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        is_asked = self.instance._state.adding or SOURCE_FIELDS & set(self.changed_data)
        if is_asked and cleaned.get("state") == ProjectState.READY and {"repository", "ref"} <= cleaned.keys():
            try:
                local_head(parse_address(cleaned["repository"], roots=conf().repository_roots), ref=cleaned["ref"])
            except (SourceUnavailable, InvalidInput) as error:
                self.add_error("repository", str(error))
        return cleaned

    def _checked(self, name: str, check: Callable[[str], str]) -> str:
        try:
            return check(self.cleaned_data[name])
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from None
