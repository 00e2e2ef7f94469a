"""Postings equal those of a clean build after any sequence of runs, and BM25 over them equals BM25 over all rows."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag.core import bm25
from rag.core.bm25 import K1, B, field_weights
from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.indexing import postings, reindex
from rag.models import Chunk, Project
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.lexemes import scope_languages, word_groups
from tests.conftest import MakeProject, MakeRepository
from tests.services.index_state import assert_as_built_from_nothing, index_state

WORDS = ["quay", "toll", "berth", "tide", "pilot", "skipper", "mooring", "harbour", "the", "getUserById", "naïve"]
PATHS = ["docs/a.md", "docs/b.md", "docs/adr/c.md", "src/d.py", "src/e.py"]

sentences = st.lists(st.sampled_from(WORDS), min_size=0, max_size=12).map(" ".join)
texts = st.lists(sentences, min_size=1, max_size=4).map(
    lambda lines: "\n\n".join(f"## {line}\n\n{line}." for line in lines)
)
#: What a commit does to the files: a new text, or none.
commits = st.dictionaries(st.sampled_from(PATHS), st.none() | texts, min_size=1, max_size=4)


def content(path: str, text: str | None) -> str | None:
    if text is None or not path.endswith(".py"):
        return text
    lines = [line.strip("#. ") for line in text.split("\n\n")]
    return "\n".join(f"def f{number}():\n    '''{line}'''\n" for number, line in enumerate(lines))


@pytest.mark.parametrize("share", [0.0, 10.0], ids=["always built anew", "always changed in place"])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(commits, min_size=1, max_size=4), data=st.data())
def test_after_any_sequence_of_runs_the_index_is_that_of_a_clean_build(
    project: MakeProject,
    make_repository: MakeRepository,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    history: list[dict[str, str | None]],
    data: st.DataObject,
) -> None:
    monkeypatch.setattr(postings, "REBUILD_SHARE", share)
    number = Project.objects.count()
    name = f"repo{number}-{share}-{len(list(tmp_path.iterdir()))}"
    made = project({"docs/first.md": "# First\n\nA quay.\n"}, slug=f"p{number}", name=name)
    reindex(project=made)
    standing: set[str] = set()
    for commit in history:
        files = {path: content(path, text) for path, text in commit.items() if text is not None or path in standing}
        standing = (standing | {path for path, text in files.items() if text is not None}) - {
            path for path, text in files.items() if text is None
        }
        make_repository(files, name)
        scopes = data.draw(st.none() | st.just(["docs"]) | st.just(["code"]))
        reindex(project=made, scopes=scopes, from_scratch=data.draw(st.booleans()))
    reindex(project=made)
    assert_as_built_from_nothing(made)


def test_many_changes_at_once_and_few_of_them_give_the_same(
    project: MakeProject, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"docs/{n}.md": f"# Note {n}\n\nBerth {n} holds boat {n * 7} of the fleet.\n" for n in range(40)}
    made = project(files)
    reindex(project=made)
    monkeypatch.setattr(postings, "REBUILD_SHARE", 10.0)
    monkeypatch.setattr(postings, "BATCH_LEXEMES", 3)
    make_repository({f"docs/{n}.md": f"# Note {n}\n\nThe toll of {n} is due.\n" for n in range(0, 40, 2)})
    make_repository({"docs/1.md": None, "docs/3.md": None})
    reindex(project=made)
    state = index_state(made)
    postings.rebuild(project_id=made.pk, scope="docs")
    assert index_state(made) == state


# ---- BM25 over the postings against BM25 over all rows --------------------------------------------------------------


def plain_bm25(project: Project, question: str, where: SearchFilter) -> dict[UUID, float]:
    """BM25 read off the stored search vectors, row by row; the filter leaves N, df and average lengths alone."""
    scopes = [str(scope) for scope in where.scopes]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.id, c.scope, c.language, c.length, c.origin_key, u.lexeme, u.weights"
            " FROM rag_chunk c LEFT JOIN LATERAL unnest(c.search_vector) u ON true"
            " WHERE c.project_id = %s AND c.scope = ANY(%s)",
            [project.pk, scopes],
        )
        rows = cursor.fetchall()
    chunks: dict[UUID, tuple[str, str, int, str]] = {}
    terms: dict[UUID, Counter[str]] = {}
    for chunk_id, scope, language, length, path, lexeme, weights in rows:
        chunks[chunk_id] = (scope, language, length, path)
        label = dict(zip("ABD", field_weights(Scope(scope)), strict=True))
        counter = terms.setdefault(chunk_id, Counter())
        if lexeme is not None:
            counter[lexeme] += sum(label[weight] for weight in weights)
    average = {
        scope: np.mean([length for name, _, length, _ in chunks.values() if name == scope] or [1]) for scope in scopes
    }
    words = query_words(question)
    groups = {
        language: word_groups(words, language=language, using="default").groups
        for language in {language for _, language, _, _ in chunks.values()}
    }
    scores: dict[UUID, float] = dict.fromkeys(chunks, 0.0)
    for place in range(len(words)):
        found = {
            chunk_id: max((terms[chunk_id][lexeme] for lexeme in groups[language][place]), default=0)
            for chunk_id, (_, language, _, _) in chunks.items()
        }
        frequency = sum(count > 0 for count in found.values())
        weight = math.log(1 + (len(chunks) - frequency + 0.5) / (frequency + 0.5))
        for chunk_id, count in found.items():
            scope, _, length, _ = chunks[chunk_id]
            if count:
                saturation = K1 * (1 - B + B * length / average[scope])
                scores[chunk_id] += weight * count * (K1 + 1) / (count + saturation)
    return {
        chunk_id: value
        for chunk_id, value in scores.items()
        if value > 0 and chunks[chunk_id][3].startswith(where.path_prefix)
    }


@pytest.fixture
def harbour(project: MakeProject) -> Project:
    rng = np.random.default_rng(1)

    def prose() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(3, 30)))

    files: dict[str, Any] = {f"docs/{n}.md": f"# {prose()}\n\n{prose()}.\n" for n in range(70)}
    files |= {f"docs/adr/{n}.md": f"# {prose()}\n\n{prose()}.\n" for n in range(20)}
    files |= {f"src/{n}.py": f"def {WORDS[n % 9]}_{n}():\n    '''{prose()}'''\n    return {n}\n" for n in range(30)}
    made = project(files)
    reindex(project=made)
    return made


QUESTIONS = ["toll of the berth", "get user by id", "pilot", "skipper mooring harbour quay tide", "unheard of", "naive"]
FILTERS: list[tuple[tuple[Scope, ...], str]] = [
    ((Scope.DOCS, Scope.ADR), ""),
    ((Scope.DOCS,), "docs/1"),
    ((Scope.CODE,), ""),
    ((Scope.DOCS, Scope.ADR, Scope.CODE), ""),
    ((Scope.ADR, Scope.CODE), "src/2"),
]


def assert_best_are_those_of_plain_bm25(project: Project, question: str, where: SearchFilter) -> None:
    expected = plain_bm25(project, question, where)
    languages = scope_languages(project_id=project.pk, scopes=where.scopes, using="default")
    for limit in (50, 7):
        found = Bm25Retriever(languages=languages).retrieve(query_words(question), where, limit=limit)
        best = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[:limit]
        assert [candidate.rank for candidate in found] == list(range(1, len(best) + 1))
        assert [candidate.score for candidate in found] == pytest.approx([value for _, value in best])
        for candidate in found:
            assert candidate.score == pytest.approx(expected[candidate.chunk_id])
        assert Chunk.objects.filter(pk__in=[candidate.chunk_id for candidate in found]).count() == len(found)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(("scopes", "prefix"), FILTERS)
def test_the_best_are_those_of_plain_bm25_over_all_rows(
    harbour: Project, monkeypatch: pytest.MonkeyPatch, question: str, scopes: tuple[Scope, ...], prefix: str
) -> None:
    # So few chunks would be compared one by one otherwise.
    monkeypatch.setattr(bm25, "HEAP", 2)
    assert_best_are_those_of_plain_bm25(harbour, question, SearchFilter(harbour.pk, scopes, path_prefix=prefix))


def test_they_are_so_at_once_after_each_reindex_of_one_transaction(
    harbour: Project, make_repository: MakeRepository
) -> None:
    where = SearchFilter(harbour.pk, (Scope.DOCS, Scope.ADR))
    for commit in ({"docs/3.md": "# Toll\n\nThe toll of the toll.\n"}, {"docs/3.md": None, "docs/4.md": "# Berth\n"}):
        assert_best_are_those_of_plain_bm25(harbour, "toll of the berth", where)
        make_repository(commit)
        with transaction.atomic():
            reindex(project=harbour)
            assert_best_are_those_of_plain_bm25(harbour, "toll of the berth", where)
