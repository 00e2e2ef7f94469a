"""Indexes a collection for the time of an evaluation: inside a transaction that is rolled back.

Nobody else ever sees the project, and nothing is left behind, whatever happens. Vectors are computed before the
transaction begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from django.db import connections, transaction

from rag.core.chunking.text import ChunkSizes, chunk_text
from rag.core.planning import build_chunks, embedding_text
from rag.core.types import ChunkData, Scope, Vector
from rag.evaluation.dataset import Document
from rag.indexing.postings import rebuild
from rag.models import Chunk, Language, Project, ScopeIndex, SourceFile

#: Rows in one INSERT.
BATCH = 500

COPIED = (
    *("id", "scope", "origin_key", "content", "content_hash", "language", "title", "symbol", "symbol_kind"),
    *("signature", "context", "start_offset", "end_offset", "start_line", "end_line", "commit", "metadata"),
    *("terms_a", "terms_b", "terms_d", "length", "embedding_hash"),
)


@dataclass(frozen=True, slots=True)
class CutCollection:
    """A collection's chunks, and the document of each."""

    slug: str
    chunks: tuple[ChunkData, ...]
    document_of: Mapping[UUID, str]
    scope: Scope = Scope.DOCS

    @property
    def texts(self) -> list[str]:
        """What is embedded, in the order of the chunks."""
        return [embedding_text(chunk) for chunk in self.chunks]


def cut_collection(name: str, documents: Sequence[Document], *, language: str, sizes: ChunkSizes) -> CutCollection:
    """Cut the documents as the product cuts plain text; their titles count as documents' titles do.

    A document's id is no content (some say the answer), so nothing searchable is made of it: the place that stands in
    for its path holds no word.
    """
    slug = f"evaluation-{sha256(name.encode()).hexdigest()[:16]}"
    chunks: list[ChunkData] = []
    document_of: dict[UUID, str] = {}
    for number, document in enumerate(documents):
        made = build_chunks(
            project_slug=slug,
            scope=Scope.DOCS,
            origin_key=wordless(number),
            language=language,
            passages=chunk_text(document.text or document.title, sizes),
            title=" ".join(document.title.split()),
        )
        chunks += made
        document_of |= {chunk.id: document.id for chunk in made}
    return CutCollection(slug, tuple(chunks), document_of)


@contextmanager
def indexed(
    collection: CutCollection, *, language: str, model: str, vectors: Mapping[str, Vector], using: str = "default"
) -> Iterator[Project]:
    """A ready project that holds the collection, until the block ends; ``vectors`` by embedded text.

    ``language``: the project's, of its documents.
    """
    with transaction.atomic(using=using):
        yield _write(collection, language=language, model=model, vectors=vectors, using=using)
        transaction.set_rollback(True, using=using)


def _write(
    collection: CutCollection, *, language: str, model: str, vectors: Mapping[str, Vector], using: str
) -> Project:
    project = Project.objects.using(using).create(
        slug=collection.slug, name="Evaluation", repository="evaluation", language=language
    )
    file = SourceFile.objects.using(using).create(
        project=project, scope=collection.scope, path="", path_hash="", blob="", chunk_count=len(collection.chunks)
    )
    for start in range(0, len(collection.chunks), BATCH):
        rows = []
        for ordinal, chunk in enumerate(collection.chunks[start : start + BATCH], start=start):
            vector = vectors.get(embedding_text(chunk))
            rows.append(
                Chunk(
                    project=project,
                    file=file,
                    ordinal=ordinal,
                    heading_path=[],
                    embedding=vector,
                    embedding_model=model if vector is not None else "",
                    **{name: getattr(chunk, name) for name in COPIED},
                )
            )
        Chunk.objects.using(using).bulk_create(rows)
    terms = str(Language.SIMPLE) if collection.scope == Scope.CODE else language
    ScopeIndex.objects.using(using).create(project=project, scope=collection.scope, language=terms)
    rebuild(project_id=project.pk, scope=str(collection.scope))
    with connections[using].cursor() as cursor:
        # Else the planner believes the tables as small as they were before.
        cursor.execute("ANALYZE rag_chunk")
        cursor.execute("ANALYZE rag_posting")
    return project


def wordless(number: int) -> str:
    """A name of its own for every number, without a letter or digit: no search term comes of it."""
    return f"{number:b}".translate({ord("0"): "·", ord("1"): "-"})
