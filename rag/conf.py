"""The typed RAG settings, read once (``conf()``) and read again when a test overrides a setting.

The environment variables are parsed in ``ragproject/settings.py``; here is the one place where each value has its type
and the reason for its default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver

from rag.core.chunking.text import ChunkSizes


@dataclass(frozen=True, slots=True)
class RagConf:
    """Every setting of the product, typed."""

    #: Everything written at run time lies below this folder.
    data_dir: Path
    #: Local repositories are read only below these folders.
    repository_roots: tuple[Path, ...]
    embedding_provider: str
    #: Empty: the provider's own default model.
    embedding_model: str
    ollama_base_url: str
    #: How long Ollama keeps the model loaded between runs: half an hour spares a cold start between two questions.
    ollama_keep_alive: str
    openai_base_url: str
    openai_api_key: str = field(repr=False)
    #: 1200 / 150 / 200 characters: starting points from the specification, to be revisited with ``calibrate``.
    chunk_sizes: ChunkSizes
    #: Bytes. 1 MiB: larger tracked text files are data or generated.
    max_file_bytes: int
    #: Days for which a removed chunk's citation can still be verified.
    retired_days: int
    #: Whether the end of a reindex measures the thresholds again (docs/adr/0015).
    calibrate_on_reindex: bool
    #: Candidates that each signal brings before fusion: 100 keeps recall, and completing them costs a millisecond.
    candidates: int
    #: Rows left by the filters up to which an exact scan is used: at 2.7 µs a row (docs/scaling.md) 5,000 rows take
    #: about 14 ms, what an HNSW search with ``ef_search`` 200 takes, and recall is 1.
    exact_scan_rows: int
    #: pgvector's default of 40 loses recall at 100 candidates; 200 reaches recall@10 ≥ 0.98 (benchmarks/).
    hnsw_ef_search: int
    #: Seconds a statement of a search may take, 0 for no limit: a hundred times what one takes at 200,000 chunks
    #: (docs/scaling.md); whoever asked has gone by then, and a web process is free again.
    search_timeout: int


@lru_cache(maxsize=1)
def conf() -> RagConf:
    """The settings as they stand."""
    return RagConf(
        data_dir=Path(settings.RAG_DATA_DIR),
        repository_roots=tuple(Path(root) for root in settings.RAG_REPOSITORY_ROOTS),
        embedding_provider=settings.RAG_EMBEDDING_PROVIDER,
        embedding_model=settings.RAG_EMBEDDING_MODEL,
        ollama_base_url=settings.OLLAMA_BASE_URL,
        ollama_keep_alive=settings.OLLAMA_KEEP_ALIVE,
        openai_base_url=settings.OPENAI_BASE_URL,
        openai_api_key=settings.OPENAI_API_KEY,
        chunk_sizes=ChunkSizes(
            target=settings.CHUNK_TARGET_CHARS, overlap=settings.CHUNK_OVERLAP_CHARS, window=settings.CHUNK_BREAK_WINDOW
        ),
        max_file_bytes=settings.RAG_MAX_FILE_BYTES,
        retired_days=settings.RAG_RETIRED_DAYS,
        calibrate_on_reindex=settings.RAG_CALIBRATE_ON_REINDEX,
        candidates=settings.RAG_CANDIDATES,
        exact_scan_rows=settings.RAG_EXACT_SCAN_ROWS,
        hnsw_ef_search=settings.RAG_HNSW_EF_SEARCH,
        search_timeout=settings.RAG_SEARCH_TIMEOUT,
    )


@receiver(setting_changed)
def forget(*, setting: str, **_: Any) -> None:
    """A changed setting is read again."""
    conf.cache_clear()
