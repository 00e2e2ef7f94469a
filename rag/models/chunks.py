"""The index: source files, chunks with both signals, postings, and what removed chunks leave behind."""

from __future__ import annotations

import uuid

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import Case, When
from django.db.models.expressions import CombinedExpression
from pgvector.django import HnswIndex, VectorField

from rag.core.profiles import EMBEDDING_DIMENSIONS
from rag.models.projects import Language, Project
from rag.models.sessions import Session, SessionEvent

#: The operator class of the HNSW index; ``rag.retrievers.vector`` orders by its operator ``<=>``.
COSINE_OPCLASS = "vector_cosine_ops"
VECTOR_INDEX = "rag_chunk_embedding"
#: SQL: the row has no vector of ``model``. Two ranges of the index on the model's name instead of "is not"; rows
#: without any vector have an empty name.
MISSING = "(embedding_model < %(model)s OR embedding_model > %(model)s)"


class ScopeName(models.TextChoices):
    """``rag.core.types.Scope`` as a column."""

    DOCS = "docs", "Docs"
    ADR = "adr", "Decisions"
    SESSION = "session", "Sessions"
    CODE = "code", "Code"


def weighted_terms(language: str) -> CombinedExpression:
    """Title and symbol terms weigh A, headings and path B, the body D; stemmed by ``rag_<language>``."""
    config = f"rag_{language}"
    return (
        SearchVector("terms_a", weight="A", config=config)
        + SearchVector("terms_b", weight="B", config=config)
        + SearchVector("terms_d", weight="D", config=config)
    )


class SourceFile(models.Model):
    """What the index knows of one tracked file: its chunks, or the reason it was skipped."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="files", db_index=False)
    #: Empty for a file that belongs to no scope and is recorded because its name is refused.
    scope = models.CharField(max_length=10, choices=ScopeName.choices, blank=True)
    path = models.TextField()
    #: Hex SHA-256 of the path: a path may be longer than a B-tree entry can be.
    path_hash = models.CharField(max_length=64)
    blob = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField(default=0)
    #: Programming language of a code file.
    language = models.CharField(max_length=30, blank=True)
    #: Pipeline version and settings the chunks were made with; another value means the file is cut anew.
    fingerprint = models.CharField(max_length=64, blank=True)
    commit = models.CharField(max_length=64, blank=True)
    chunk_count = models.PositiveIntegerField(default=0)
    skip_reason = models.CharField(max_length=200, blank=True)
    #: Why code was cut by size instead of by symbol; empty when it was not.
    fallback = models.CharField(max_length=200, blank=True)
    indexed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "scope", "path_hash"], name="rag_file_once")]

    def __str__(self) -> str:
        return self.path


class Chunk(models.Model):
    """An indexed passage: one row holds the lexical signal, the vector, and the exact place in the source."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="chunks", db_index=False)
    scope = models.CharField(max_length=10, choices=ScopeName.choices)
    #: Small number of the chunk in its scope's postings; freed when the chunk goes.
    ordinal = models.PositiveIntegerField()
    file = models.ForeignKey(SourceFile, null=True, blank=True, on_delete=models.CASCADE, related_name="chunks")
    session = models.ForeignKey(Session, null=True, blank=True, on_delete=models.CASCADE, related_name="chunks")
    event = models.ForeignKey(
        SessionEvent, null=True, blank=True, on_delete=models.CASCADE, related_name="chunks", db_index=False
    )
    #: Path of the file, or ``session/event``.
    origin_key = models.TextField()
    content = models.TextField()
    content_hash = models.CharField(max_length=64)
    language = models.CharField(max_length=20, choices=Language.choices)
    title = models.TextField(blank=True)
    heading_path = models.JSONField(default=list, blank=True)
    symbol = models.TextField(blank=True)
    symbol_kind = models.CharField(max_length=30, blank=True)
    signature = models.TextField(blank=True)
    context = models.TextField(blank=True)
    start_offset = models.PositiveIntegerField()
    end_offset = models.PositiveIntegerField()
    start_line = models.PositiveIntegerField()
    end_line = models.PositiveIntegerField()
    commit = models.CharField(max_length=64, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    terms_a = models.TextField(blank=True)
    terms_b = models.TextField(blank=True)
    terms_d = models.TextField(blank=True)
    search_vector = models.GeneratedField(
        expression=Case(
            *(
                When(language=language, then=weighted_terms(language))
                for language in Language.values
                if language != "simple"
            ),
            default=weighted_terms("simple"),
            output_field=SearchVectorField(),
        ),
        output_field=SearchVectorField(),
        db_persist=True,
    )
    #: BM25's length of the chunk in words, weighted by field.
    length = models.PositiveIntegerField(default=1)
    embedding = VectorField(dimensions=EMBEDDING_DIMENSIONS, null=True, blank=True)
    #: The model of the stored vector (``rag.core.profiles.recorded_model``); empty without a vector.
    embedding_model = models.CharField(max_length=200, blank=True)
    #: Hex SHA-256 of the text to embed, without the model's prefix.
    embedding_hash = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "id"], name="rag_chunk_once"),
            models.UniqueConstraint(
                fields=["project", "scope", "ordinal"],
                name="rag_chunk_ordinal_once",
                deferrable=models.Deferrable.DEFERRED,
            ),
        ]
        indexes = [
            GinIndex(fields=["search_vector"], name="rag_chunk_search_vector"),
            HnswIndex(
                fields=["embedding"],
                name=VECTOR_INDEX,
                # pgvector's defaults; what a larger graph would add, iterative scans give (docs/scaling.md).
                m=16,
                ef_construction=64,
                opclasses=[COSINE_OPCLASS],
            ),
            # Finding a vector that was already computed for the same text.
            models.Index(fields=["project", "embedding_hash"], name="rag_chunk_embedding_hash"),
            # Every run asks for the chunks without a vector of its model, which are few or none.
            models.Index(fields=["project", "scope", "embedding_model"], name="rag_chunk_embedding_model"),
        ]

    def __str__(self) -> str:
        return f"{self.origin_key}:{self.start_line}"


class RetiredChunk(models.Model):
    """What a removed chunk leaves: enough to verify a citation that was saved while it stood."""

    id = models.UUIDField(primary_key=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="retired_chunks", db_index=False)
    scope = models.CharField(max_length=10, choices=ScopeName.choices)
    #: Path of the file, or ``session/event``.
    origin_key = models.TextField()
    content_hash = models.CharField(max_length=64)
    commit = models.CharField(max_length=64, blank=True)
    start_offset = models.PositiveIntegerField()
    end_offset = models.PositiveIntegerField()
    start_line = models.PositiveIntegerField()
    end_line = models.PositiveIntegerField()
    title = models.TextField(blank=True)
    heading_path = models.JSONField(default=list, blank=True)
    symbol = models.TextField(blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    retired_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "id"], name="rag_retired_once")]
        indexes = [models.Index(fields=["project", "retired_at"], name="rag_retired_age")]

    def __str__(self) -> str:
        return f"{self.origin_key}:{self.start_line} (retired)"


class ScopeIndex(models.Model):
    """The state of one scope's index: what it was built from, and the statistics BM25 needs.

    The row of the empty scope stands for the refused names, which are recorded outside the scopes.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="scope_indexes", db_index=False)
    scope = models.CharField(max_length=10, choices=ScopeName.choices)
    commit = models.CharField(max_length=64, blank=True)
    #: The commit's tree id and the pipeline's fingerprint: both unchanged means there is nothing to do.
    tree = models.CharField(max_length=64, blank=True)
    fingerprint = models.CharField(max_length=64, blank=True)
    #: The text search configuration all chunks of the scope were made with.
    language = models.CharField(max_length=20, choices=Language.choices, default=Language.SIMPLE)
    chunk_count = models.PositiveIntegerField(default=0)
    #: Sum of all lengths, in lexemes.
    total_length = models.PositiveBigIntegerField(default=0)
    #: Packed length in lexemes by ordinal (``rag.core.bm25.unpack_lengths``); 0 where no chunk has a lexeme.
    lengths = models.BinaryField(default=bytes)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "scope"], name="rag_scope_once")]

    def __str__(self) -> str:
        return f"{self.project} {self.scope}"


class Posting(models.Model):
    """The chunks of one scope that hold one lexeme, packed (``rag.core.bm25``)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+", db_index=False)
    scope = models.CharField(max_length=10, choices=ScopeName.choices)
    #: Collation "C": words are looked up by their beginning, whatever the server's locale.
    lexeme = models.CharField(max_length=255, db_collation="C")
    #: Ordinals and term frequencies as ``rag.core.bm25.pack`` writes them.
    packed = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "scope", "lexeme"], name="rag_posting_once")]

    def __str__(self) -> str:
        return f"{self.scope} {self.lexeme}"
