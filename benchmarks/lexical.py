"""Lexical ranking at 200,000 chunks in one project: BM25 from packed postings against ts_rank over OR, and bm25s.

Paired in one run: each question is asked of every system in turn, so that a busy machine slows all of them alike, and
no question is known to anybody (the remembered lexemes of questions are forgotten before each).

The text is made here, after English text cut to 1,200 characters: about 110 words and 90 stop words a chunk, 70 of the
words different; lengths vary. Words follow Zipf and Mandelbrot's law, so that the most frequent one is in a quarter of
the chunks. A question is 3 to 9 words that follow the same law: it matches about a fifth of the chunks. (The questions
of the sets scifact, chroma-general and cosqa match 32, 21 and 12 % of their chunks, median, stop words apart; sets
about a single subject more.)

    RAG_DATA_DIR=/tmp/bench/var .venv/bin/python benchmarks/lexical.py --chunks 200000
    pip install bm25s numba  # to be compared as well; never dependencies of the product
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

import django

django.setup()

from django.core.management import call_command
from django.db import connection, transaction

from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.indexing.postings import rebuild
from rag.indexing.tables import copy_rows
from rag.models import Chunk, Project, ScopeIndex, SourceFile
from rag.retrievers import lexemes
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.fulltext import FulltextRetriever

SLUG = "lexical-benchmark"
VOCABULARY = 120_000
#: Mandelbrot's shift: the most frequent word is one of 220.
SHIFT = 25
#: Different words of a chunk (mean, deviation, least, most), times that one comes again, and stop words for each.
DIFFERENT, AGAIN, STOP_SHARE = (70, 18, 10, 110), 0.55, 0.8
STOP_WORDS = (
    *("the", "of", "and", "to", "a", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his"),
    *("they", "at", "be", "this", "from", "have", "or", "by", "not", "but", "what", "all", "were", "when", "we"),
    *("there", "can", "an", "your", "which", "their", "if", "do", "will", "each", "how", "them", "then", "she"),
    *("so", "these", "him", "her", "has", "some", "no", "more", "than"),
)
CHUNKS_OF_A_FILE, FOLDERS = 10, 20
PREFIX = "docs/part-07/"
TOP = 50

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Text:
    """The words of every chunk, stop words apart, by number; and how a word is written."""

    words: list[str]
    chunks: list[Numbers]

    def content(self, place: int, rng: np.random.Generator) -> str:
        """A chunk's text with stop words between."""
        numbers = self.chunks[place]
        stops = rng.integers(len(STOP_WORDS), size=int(len(numbers) * STOP_SHARE))
        mixed = np.concatenate([numbers, -1 - stops])
        rng.shuffle(mixed)
        return " ".join(self.words[n] if n >= 0 else STOP_WORDS[-1 - n] for n in mixed.tolist())


def weights() -> NDArray[np.float64]:
    """How often each word comes."""
    found = 1 / (SHIFT + np.arange(1, VOCABULARY + 1))
    return found / found.sum()


def vocabulary() -> list[str]:
    """Pronounceable words, all different; the stemmer leaves them alone."""
    onset, vowel = ["b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "t", "v", "z"], ["a", "o", "u"]
    syllables = [a + b for a in onset for b in vowel]
    count = len(syllables)
    return [
        syllables[n % count] + syllables[n // count % count] + syllables[n // count**2 % count] + "x" * (n // count**3)
        for n in range(VOCABULARY)
    ]


def make_text(chunks: int, rng: np.random.Generator) -> Text:
    """The same text for the same generator."""
    mean, deviation, least, most = DIFFERENT
    sizes = rng.normal(mean, deviation, chunks).astype(int).clip(least, most)
    drawn = np.split(rng.choice(VOCABULARY, size=sizes.sum(), p=weights()), np.cumsum(sizes)[:-1])
    return Text(
        vocabulary(),
        [np.concatenate([own, rng.choice(own, size=int(len(own) * AGAIN))]) for own in drawn],
    )


def make_questions(text: Text, count: int, rng: np.random.Generator) -> list[str]:
    """3 to 9 words each."""
    drawn = (rng.choice(VOCABULARY, size=rng.integers(3, 10), p=weights()) for _ in range(count))
    return [" ".join(text.words[n] for n in numbers) for numbers in drawn]


def path_of(file: int) -> str:
    """Files are spread over the folders."""
    return f"docs/part-{file % FOLDERS:02}/{file}.md"


def fill(text: Text, scopes: list[Scope]) -> Project:
    """A project of the text, its files dealt to the scopes in turn."""
    Project.objects.filter(slug=SLUG).delete()
    project = Project.objects.create(slug=SLUG, repository="/nowhere")
    files = -(-len(text.chunks) // CHUNKS_OF_A_FILE)
    SourceFile.objects.bulk_create(
        SourceFile(project=project, scope=scopes[n % len(scopes)], path=path_of(n), path_hash=str(n), blob="")
        for n in range(files)
    )
    file_ids = dict(SourceFile.objects.filter(project=project).values_list("path", "id"))
    columns = (
        *("id", "project_id", "scope", "ordinal", "file_id", "origin_key", "content", "content_hash", "language"),
        *("title", "heading_path", "symbol", "symbol_kind", "signature", "context", "start_offset", "end_offset"),
        *("start_line", "end_line", "commit", "metadata", "terms_a", "terms_b", "terms_d", "length"),
        *("embedding_model", "embedding_hash", "created_at"),
    )
    rng = np.random.default_rng(2)
    ordinals = dict.fromkeys(scopes, 0)

    def rows() -> Iterator[tuple[object, ...]]:
        for place in range(len(text.chunks)):
            path = path_of(place // CHUNKS_OF_A_FILE)
            scope = scopes[place // CHUNKS_OF_A_FILE % len(scopes)]
            content = text.content(place, rng)
            yield (
                *(uuid.uuid4(), project.pk, str(scope), ordinals[scope], file_ids[path], path, content, ""),
                *("english", "", "[]", "", "", "", "", 0, len(content), 1, 1, "", "{}", "", "", content),
                *(content.count(" ") + 1, "", "", "now"),
            )
            ordinals[scope] += 1

    started = time.perf_counter()
    copy_rows(Chunk._meta.db_table, columns, rows())
    print(f"{len(text.chunks)} chunks copied in {time.perf_counter() - started:.0f} s")
    for scope in scopes:
        ScopeIndex.objects.create(project=project, scope=scope, language="english")
    build(project, scopes)
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_search_vector')")
        cursor.execute("VACUUM ANALYZE rag_chunk")
        cursor.execute("VACUUM ANALYZE rag_sourcefile")
    return project


def build(project: Project, scopes: list[Scope]) -> None:
    """Build the postings, timed."""
    started = time.perf_counter()
    for scope in scopes:
        with transaction.atomic():
            rebuild(project_id=project.pk, scope=str(scope))
    print(f"Postings built in {time.perf_counter() - started:.1f} s")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE rag_posting")
        cursor.execute("VACUUM rag_scopeindex")
        cursor.execute("SELECT pg_size_pretty(pg_total_relation_size('rag_posting'))")
        print(f"Their table has {cursor.fetchone()[0]}")


def filled(text: Text, scopes: list[Scope]) -> Project | None:
    """The project of an earlier run, where it holds as many chunks of these scopes."""
    project = Project.objects.filter(slug=SLUG).first()
    counts = list(ScopeIndex.objects.filter(project=project).values_list("scope", "chunk_count"))
    same = {scope for scope, _ in counts} == {str(scope) for scope in scopes}
    return project if same and sum(count for _, count in counts) == len(text.chunks) else None


def bm25s_systems(text: Text) -> dict[str, Callable[[str, bool], object]]:
    """bm25s in memory over the same words, where it is installed; compiled as well where numba is."""
    try:
        import bm25s  # type: ignore[import-not-found]
    except ImportError:
        return {}
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    texts = [[text.words[n] for n in chunk.tolist()] for chunk in text.chunks]
    files = np.arange(len(texts)) // CHUNKS_OF_A_FILE
    mask = np.array([path_of(n).startswith(PREFIX) for n in range(files.max() + 1)])[files].astype(np.float32)

    def system(backend: str) -> Callable[[str, bool], object]:
        model = bm25s.BM25(k1=1.5, b=0.75, backend=backend)
        model.index(texts, show_progress=False)
        return lambda question, narrowed: model.retrieve(
            [question.split()], k=TOP, show_progress=False, weight_mask=mask if narrowed else None
        )

    found = {"bm25s (memory)": system("numpy")}
    if importlib.util.find_spec("numba"):
        found["bm25s (numba)"] = system("numba")
    return found


def main() -> None:
    """Fill a scratch database, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3, help="of the questions")
    parser.add_argument("--scopes", type=lambda names: [Scope(name) for name in names.split(",")], default=[Scope.DOCS])
    parser.add_argument("--reuse", action="store_true", help="the chunks of an earlier run, where they are as many")
    parser.add_argument("--rebuild", action="store_true", help="build the postings of reused chunks anew, timed")
    options = parser.parse_args()
    call_command("migrate", verbosity=0)
    text = make_text(options.chunks, np.random.default_rng(1))
    project = filled(text, options.scopes) if options.reuse else None
    if project and options.rebuild:
        build(project, options.scopes)
    project = project or fill(text, options.scopes)
    scopes = tuple(options.scopes)
    languages = lexemes.scope_languages(project_id=project.pk, scopes=scopes, using="default")
    bm25, fulltext = Bm25Retriever(languages=languages), FulltextRetriever(languages=languages)
    where = {False: SearchFilter(project.pk, scopes), True: SearchFilter(project.pk, scopes, path_prefix=PREFIX)}
    systems: dict[str, Callable[[str, bool], object]] = {
        "bm25 (postings)": lambda question, narrowed: bm25.retrieve(query_words(question), where[narrowed], limit=TOP),
        "ts_rank over OR": lambda question, narrowed: fulltext.retrieve(
            query_words(question), where[narrowed], limit=TOP
        ),
    }
    systems |= bm25s_systems(text)
    questions = make_questions(text, options.questions + 1, np.random.default_rng(options.seed))
    matched = [
        sum(int(np.count_nonzero(s)) for s in bm25.score(query_words(q), where[False]).scores.values())
        for q in questions[1:]
    ]
    print(
        f"{options.questions} questions of 3 to 9 words; each matches {statistics.median(matched) / options.chunks:.0%}"
        f" of the chunks (median; {max(matched) / options.chunks:.0%} at most)"
    )
    for narrowed in (False, True):
        print(f"In {PREFIX}:" if narrowed else "Without a filter:")
        compare(systems, questions, narrowed=narrowed)


def compare(systems: dict[str, Callable[[str, bool], object]], questions: list[str], *, narrowed: bool) -> None:
    """Ask each question of each system; the first question only warms them."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for question in questions:
        for name, ask in systems.items():
            lexemes._word_groups.cache_clear()
            begun = time.perf_counter()
            ask(question, narrowed)
            times[name].append((time.perf_counter() - begun) * 1000)
    base = statistics.median(times["bm25 (postings)"][1:])
    for name, values in times.items():
        values = sorted(values[1:])
        print(
            f"  {name:18} p50 {statistics.median(values):8.1f} ms   p95 {values[int(len(values) * 0.95)]:8.1f} ms"
            f"   p50 ratio to bm25 {statistics.median(values) / base:6.1f}"
        )


if __name__ == "__main__":
    main()
