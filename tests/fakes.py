"""Hand-written stand-ins, and a short way to an index for tests that are not about indexing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rag.core.chunking.text import chunk_text
from rag.core.planning import build_chunks, content_hash
from rag.core.types import Scope


def index_chunks(
    project: Any,
    texts: Mapping[str, str],
    *,
    scope: Scope = Scope.DOCS,
    language: str = "english",
    model: str = "",
    embed: Callable[[str], np.ndarray] | None = None,
) -> None:
    """Put texts into the index as chunks cut by size, with vectors from ``embed``, and build the scope's postings."""
    from django.db import transaction

    from rag.indexing.postings import rebuild
    from rag.models import Chunk, ScopeIndex, SourceFile

    language = "simple" if scope is Scope.CODE else language
    rows = []
    for path, text in texts.items():
        file = SourceFile.objects.create(
            project=project, scope=scope, path=path, path_hash=content_hash(path), blob="0" * 40, chunk_count=1
        )
        for chunk in build_chunks(
            project_slug=project.slug,
            scope=scope,
            origin_key=path,
            language=language,
            passages=chunk_text(text),
            commit="0" * 40,
        ):
            vector = embed(chunk.content) if embed else None
            names = (
                *("id", "content", "content_hash", "title", "symbol", "start_offset", "end_offset", "start_line"),
                *("end_line", "commit", "terms_a", "terms_b", "terms_d", "length", "embedding_hash", "origin_key"),
            )
            rows.append(
                Chunk(
                    project=project,
                    scope=scope,
                    file=file,
                    ordinal=len(rows),
                    language=language,
                    heading_path=list(chunk.heading_path),
                    embedding=vector,
                    embedding_model=model if vector is not None else "",
                    **{name: getattr(chunk, name) for name in names},
                )
            )
    Chunk.objects.bulk_create(rows)
    ScopeIndex.objects.create(project=project, scope=scope, language=language, commit="0" * 40)
    with transaction.atomic():
        rebuild(project_id=project.pk, scope=str(scope))
