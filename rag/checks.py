"""System checks: what would only fail later is said at start. They connect to nothing; ``doctor`` asks the provider."""

from __future__ import annotations

import logging
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register

from rag.conf import conf
from rag.core.errors import RagError
from rag.core.profiles import known_like, profile_of
from rag.provider import configured_embedder

log = logging.getLogger(__name__)

UNUSABLE, UNKNOWN = "rag.E001", "rag.W001"
DOCTOR = "manage.py doctor asks the provider whether it works."


@register(Tags.models)
def embedding_model_fits(**_: Any) -> list[CheckMessage]:
    """The configured provider and model exist and fit the column's 768 dimensions; a name nobody knows is a warning."""
    try:
        embedder = configured_embedder(conf())
    except RagError as error:
        return [Error(str(error), hint=f"Until then searches go by words alone. {DOCTOR}", id=UNUSABLE)]
    if profile_of(embedder.provider, embedder.model).dimensions is not None:
        return []
    like = known_like(embedder.model)
    message = (
        f"RAG_EMBEDDING_MODEL is {embedder.model[:80]}, of which nothing is known here"
        f"{f' (is {like} meant?)' if like else ''}: its prefixes and similarity floor are taken to be none and 0, and "
        "where the provider does not have it, searches go by words alone."
    )
    return [Warning(message, hint=DOCTOR, id=UNKNOWN)]


def tell_at_start() -> None:
    """Log what the checks say: for processes that serve, which no command checks."""
    for said in embedding_model_fits():
        if not said.is_silenced():
            log.warning("%s %s", said.msg, said.hint)
