"""Questions with what answers them, whatever they were read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rag.core.types import Scope
from rag.search import DEFAULT_SCOPES


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and the units that answer it.

    A unit is what a label names: a document of a collection; a file, section, symbol or event of a project.
    """

    id: str
    text: str
    #: Gain by unit; empty where nothing answers.
    relevant: Mapping[str, float] = field(default_factory=dict)
    answerable: bool = True
    scopes: tuple[Scope, ...] = DEFAULT_SCOPES
    #: How fine the question's units are: ``document`` (collections), ``file``, ``heading``, ``symbol`` or ``event``.
    grain: str = "document"
