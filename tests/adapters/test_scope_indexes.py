"""Statistics that are kept between questions: never those of another state of the index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import numpy as np
import pytest
from django.db import connection, transaction

from rag.core.bm25 import scope_index
from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.indexing import postings
from rag.models import Chunk, Project, ScopeIndex
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.lexemes import scope_languages
from rag.retrievers.scope_indexes import ScopeIndexes
from rag.search.snapshot import snapshot
from tests.fakes import index_chunks

DOCS = {"docs/a.md": "toll of a boat", "docs/b.md": "toll and much more about a boat at the pier"}


def harbour() -> Project:
    project = Project.objects.create(slug="harbour", repository="/nowhere")
    index_chunks(project, DOCS)
    return project


def scores(project: Project) -> dict[UUID, float]:
    """Raw BM25 of the chunks that hold the word."""
    languages = scope_languages(project_id=project.pk, scopes=[Scope.DOCS], using="default")
    retriever = Bm25Retriever(languages=languages)
    found = retriever.retrieve(query_words("toll"), SearchFilter(project.pk, (Scope.DOCS,)), limit=10)
    return {candidate.chunk_id: candidate.score for candidate in found}


def lengthen(project: Project, length: int) -> None:
    """Make every chunk but the first longer, as a reindex would."""
    with transaction.atomic():
        Chunk.objects.filter(project=project).exclude(ordinal=0).update(length=length)
        postings.rebuild(project_id=project.pk, scope="docs")


@pytest.mark.django_db
def test_changed_lengths_count_for_the_next_question() -> None:
    project = harbour()
    before = scores(project)
    assert scores(project) == before
    lengthen(project, 40)
    after = scores(project)
    assert after.keys() == before.keys()
    assert after != before


@pytest.mark.django_db
def test_two_changes_of_one_transaction_are_two_states() -> None:
    project = harbour()
    seen = []
    for length in (40, 4, 41):
        lengthen(project, length)
        seen.append(scores(project))
    assert seen[0] != seen[1] != seen[2] != seen[0]


@pytest.mark.django_db
def test_a_change_that_is_rolled_back_is_forgotten() -> None:
    project = harbour()
    before = scores(project)
    with transaction.atomic():
        lengthen(project, 40)
        assert scores(project) != before
        transaction.set_rollback(True)
    assert scores(project) == before


@pytest.mark.django_db
def test_other_parameters_are_other_statistics() -> None:
    project = harbour()
    languages = scope_languages(project_id=project.pk, scopes=[Scope.DOCS], using="default")
    where = SearchFilter(project.pk, (Scope.DOCS,))
    flat = Bm25Retriever(languages=languages, b=0.0).retrieve(query_words("toll"), where, limit=10)
    assert len({candidate.score for candidate in flat}) == 1
    assert len(set(scores(project).values())) == 2


@pytest.mark.django_db(transaction=True)
def test_a_search_that_began_before_a_reindex_keeps_to_its_own_state() -> None:
    project = harbour()
    ScopeIndex.objects.update(language="english")
    before = scores(project)

    def reindexed() -> dict[UUID, float]:
        try:
            lengthen(project, 40)
            return scores(project)
        finally:
            connection.close()

    with snapshot("default"):
        assert scores(project) == before
        with ThreadPoolExecutor(1) as other:
            after = other.submit(reindexed).result()
        assert after != before
        assert scores(project) == before
    assert scores(project) == after


def test_scopes_that_were_not_used_for_longest_make_room() -> None:
    kept = ScopeIndexes(most_chunks=25)
    keys = [("default", number, Scope.DOCS, 1.5, 0.75) for number in range(3)]
    index = scope_index(np.full(10, 3, dtype=np.uint16))
    kept.keep(keys[0], "v0", index)
    kept.keep(keys[1], "v1", index)
    assert kept.get(keys[0]) == ("v0", index)
    kept.keep(keys[2], "v2", index)
    assert [kept.get(key) is not None for key in keys] == [True, False, True]


def test_a_scope_larger_than_the_whole_room_is_not_kept() -> None:
    kept = ScopeIndexes(most_chunks=5)
    key = ("default", 1, Scope.DOCS, 1.5, 0.75)
    kept.keep(key, "v", scope_index(np.full(10, 3, dtype=np.uint16)))
    assert kept.get(key) is None
