"""Lexical ranking at 200,000 chunks in one project: BM25 from packed postings against ts_rank over OR, and bm25s.

Paired in one run: each question is asked of every system in turn, so that a busy machine slows all of them alike. The
text is made here: words of a Zipf distribution (the law of real vocabularies), 160 to a chunk, questions of 3 to 9
words drawn from the same distribution without its most frequent words, as stemming and stop words leave them.

    RAG_DATA_DIR=/tmp/bench/var .venv/bin/python benchmarks/lexical.py --chunks 200000
    pip install bm25s   # to be compared as well; never a dependency of the product
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

import django

django.setup()

from django.core.management import call_command
from django.db import connection

from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.indexing.postings import rebuild
from rag.indexing.staging import copy_rows
from rag.models import Chunk, Project, ScopeIndex
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.fulltext import FulltextRetriever
from rag.retrievers.lexemes import scope_languages

WORDS_PER_CHUNK = 160
VOCABULARY = 120_000
#: The most frequent words of a language are stop words: no index has them, no question is about them.
STOP_WORDS = 150
TOP = 50


def vocabulary() -> list[str]:
    """Pronounceable words, all different; the stemmer leaves them alone."""
    onset, vowel = ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "t", "v", "z"], ["a", "o", "u"]
    syllables = [a + b for a in onset for b in vowel]
    count = len(syllables)
    return [
        syllables[n % count] + syllables[n // count % count] + syllables[n // count**2 % count] + "x" * (n // count**3)
        for n in range(VOCABULARY)
    ]


def fill(project: Project, words: list[str], chunks: int, rng: np.random.Generator) -> list[list[int]]:
    """Copy the chunks in; returns the word numbers of each."""
    weights = 1 / np.arange(1, VOCABULARY + 1)
    weights /= weights.sum()
    drawn = rng.choice(VOCABULARY, size=(chunks, WORDS_PER_CHUNK), p=weights)
    columns = (
        *("id", "project_id", "scope", "ordinal", "origin_key", "content", "content_hash", "language", "title"),
        *("heading_path", "symbol", "symbol_kind", "signature", "context", "start_offset", "end_offset", "start_line"),
        *("end_line", "commit", "metadata", "terms_a", "terms_b", "terms_d", "length", "embedding_model"),
        *("embedding_hash", "created_at"),
    )

    def rows() -> object:
        for ordinal, numbers in enumerate(drawn):
            text = " ".join(words[number] for number in numbers)
            yield (
                *(uuid.uuid4(), project.pk, "docs", ordinal, f"docs/{ordinal}.md", text, "", "english", ""),
                *("[]", "", "", "", "", 0, len(text), 1, 1, "", "{}", "", "", text, WORDS_PER_CHUNK, "", ""),
                "now",
            )

    copy_rows(Chunk._meta.db_table, columns, rows())  # type: ignore[arg-type]
    ScopeIndex.objects.create(project=project, scope="docs", language="english")
    rebuild(project_id=project.pk, scope="docs")
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_search_vector')")
        cursor.execute("VACUUM ANALYZE rag_chunk")
        cursor.execute("VACUUM ANALYZE rag_posting")
    return [row.tolist() for row in drawn]


def bm25s_system(chunks: list[list[int]], words: list[str]) -> Callable[[str], object] | None:
    """bm25s in memory over the same words, where it is installed."""
    try:
        import bm25s  # type: ignore[import-not-found]
    except ImportError:
        return None
    model = bm25s.BM25(k1=1.5, b=0.75)
    model.index([[words[number] for number in chunk] for chunk in chunks], show_progress=False)
    return lambda question: model.retrieve([question.split()], k=TOP, show_progress=False)


def main() -> None:
    """Fill a scratch database, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--questions", type=int, default=40)
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    Project.objects.filter(slug="lexical-benchmark").delete()
    project = Project.objects.create(slug="lexical-benchmark", repository="/nowhere")
    rng = np.random.default_rng(1)
    words = vocabulary()
    started = time.perf_counter()
    chunks = fill(project, words, options.chunks, rng)
    print(f"{options.chunks} chunks copied and their postings built in {time.perf_counter() - started:.0f} s")
    where = SearchFilter(project.pk, (Scope.DOCS,))
    languages = scope_languages(project_id=project.pk, scopes=[Scope.DOCS], using="default")
    bm25, fulltext = Bm25Retriever(languages=languages), FulltextRetriever(languages=languages)
    systems: dict[str, Callable[[str], object]] = {
        "bm25 (postings)": lambda question: bm25.retrieve(query_words(question), where, limit=TOP),
        "ts_rank over OR": lambda question: fulltext.retrieve(query_words(question), where, limit=TOP),
    }
    in_memory = bm25s_system(chunks, words)
    if in_memory is not None:
        systems["bm25s (memory)"] = in_memory
    ranks = 1 / np.arange(1, VOCABULARY + 1)
    ranks[:STOP_WORDS] = 0
    questions = [
        " ".join(words[n] for n in rng.choice(VOCABULARY, size=rng.integers(3, 10), p=ranks / ranks.sum()))
        for _ in range(options.questions)
    ]
    times: dict[str, list[float]] = {name: [] for name in systems}
    for place, question in enumerate(questions):
        for name, ask in systems.items():
            if place == 0:
                ask(question)
            begun = time.perf_counter()
            ask(question)
            times[name].append((time.perf_counter() - begun) * 1000)
    base = statistics.median(times["bm25 (postings)"])
    for name, values in times.items():
        values.sort()
        print(
            f"{name:18} p50 {statistics.median(values):8.1f} ms   p95 {values[int(len(values) * 0.95)]:8.1f} ms"
            f"   p50 ratio to bm25 {statistics.median(values) / base:6.1f}"
        )
    Project.objects.filter(pk=project.pk).delete() if options.chunks <= 1000 else None


if __name__ == "__main__":
    main()
