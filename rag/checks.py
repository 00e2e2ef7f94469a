"""System checks: what would only fail later is said at start."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from rag.conf import conf
from rag.core.errors import RagError


@register(Tags.models)
def embedding_model_fits(**_: Any) -> list[CheckMessage]:
    """The configured provider and model exist and fit the column's 768 dimensions."""
    from rag.provider import configured_embedder

    try:
        conf()
        configured_embedder(conf())
    except RagError as error:
        return [Error(str(error), id="rag.E001")]
    return []
