"""One contract for all retrievers: the same filters, the same order, as many candidates as the filter leaves."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction

from rag.core.query import query_words
from rag.core.types import Scope, SearchFilter
from rag.models import Project
from rag.retrievers.bm25 import Bm25Retriever
from rag.retrievers.fulltext import FulltextRetriever
from rag.retrievers.lexemes import scope_languages
from rag.retrievers.vector import VectorRetriever
from tests.fakes import index_chunks

pytestmark = pytest.mark.django_db

MODEL = "test/model"
DOCS = {
    "docs/berth.md": "A berth is booked for a boat. The pilot waits.",
    "docs/pilot.md": "The pilot boards every boat longer than twenty metres.",
    "docs/toll.md": "The toll of a boat is paid at the gate.",
    "docs/weather.md": "Northern wind brings rain.",
}


@dataclass
class Asked:
    """A retriever with a question it understands."""

    retriever: Any
    query: Any
    #: Paths it should bring, best first where it matters.
    expects: set[str]


def vector_of(text: str) -> np.ndarray:
    """A bag of words as a vector, for texts and questions alike."""
    vector = np.zeros(768, dtype=np.float32)
    for word in text.lower().replace(".", "").split():
        vector[uuid.uuid5(uuid.NAMESPACE_DNS, word).int % 768] += 1
    return vector / np.linalg.norm(vector)


@pytest.fixture
def harbour(db: None) -> Project:
    project = Project.objects.create(slug="harbour", repository="/nowhere")
    other = Project.objects.create(slug="other", repository="/nowhere")
    for owner in (project, other):
        index_chunks(owner, DOCS, model=MODEL, embed=vector_of)
        index_chunks(owner, {"src/boat.py": "def boat(): pilot"}, scope=Scope.CODE, model=MODEL, embed=vector_of)
    return project


@pytest.fixture(params=["bm25", "ts_rank", "vector", "vector through the index"])
def asked(request: pytest.FixtureRequest, harbour: Project) -> Asked:
    languages = scope_languages(project_id=harbour.pk, scopes=list(Scope), using="default")
    words = query_words("pilot boat")
    expects = {"docs/berth.md", "docs/pilot.md", "docs/toll.md"}
    if request.param == "bm25":
        return Asked(Bm25Retriever(languages=languages), words, expects)
    if request.param == "ts_rank":
        return Asked(FulltextRetriever(languages=languages), words, expects)
    exact = 0 if "index" in request.param else 1000
    retriever = VectorRetriever(model=MODEL, languages=languages, exact_scan_rows=exact, ef_search=100)
    return Asked(retriever, vector_of("pilot boat"), expects | {"docs/weather.md"})


def retrieve(asked: Asked, project: Project, *, limit: int = 10, **restrictions: Any) -> list[str]:
    where = SearchFilter(project_id=project.pk, **{"scopes": (Scope.DOCS,), **restrictions})
    with transaction.atomic():
        found = asked.retriever.retrieve(asked.query, where, limit=limit)
    assert [candidate.rank for candidate in found] == list(range(1, len(found) + 1))
    assert [(-one.score, one.chunk_id) for one in found] == sorted((-one.score, one.chunk_id) for one in found)
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, origin_key FROM rag_chunk WHERE project_id = %s", [project.pk])
        paths = dict(cursor.fetchall())
    # A candidate of another project would not be among the paths.
    return [paths[candidate.chunk_id] for candidate in found]


def test_candidates_come_best_first_out_of_the_asked_project_and_scope(asked: Asked, harbour: Project) -> None:
    found = retrieve(asked, harbour)
    assert set(found) == asked.expects
    assert set(found[:2]) == {"docs/berth.md", "docs/pilot.md"}


def test_several_scopes_are_searched_together(asked: Asked, harbour: Project) -> None:
    assert "src/boat.py" in retrieve(asked, harbour, scopes=(Scope.DOCS, Scope.CODE))


def test_no_more_than_the_limit_come_back_and_they_are_the_best(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour, limit=2) == retrieve(asked, harbour)[:2]


def test_the_same_question_gives_the_same_order(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour) == retrieve(asked, harbour)


def test_a_path_prefix_restricts(asked: Asked, harbour: Project) -> None:
    assert set(retrieve(asked, harbour, path_prefix="docs/p")) == {"docs/pilot.md"}
    assert retrieve(asked, harbour, path_prefix="docs/x") == []


def test_wildcards_in_a_prefix_are_plain_characters(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour, path_prefix="docs%") == []


def test_a_phrase_must_occur(asked: Asked, harbour: Project) -> None:
    assert set(retrieve(asked, harbour, phrases=("booked for a boat",))) == {"docs/berth.md"}
    assert retrieve(asked, harbour, phrases=("boat booked",)) == []


def test_a_phrase_of_stop_words_must_occur_too(asked: Asked, harbour: Project) -> None:
    assert set(retrieve(asked, harbour, phrases=("of a",))) == {"docs/toll.md"}


def test_what_is_excluded_does_not_occur(asked: Asked, harbour: Project) -> None:
    assert "docs/pilot.md" not in retrieve(asked, harbour, exclude=("twenty metres",))
    assert retrieve(asked, harbour, exclude=("!?",)) == retrieve(asked, harbour)


def test_an_unknown_session_leaves_nothing(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour, session_id="nobody") == []


def test_nothing_is_found_in_an_empty_scope(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour, scopes=(Scope.ADR,)) == []


def test_hostile_values_are_values(asked: Asked, harbour: Project) -> None:
    assert retrieve(asked, harbour, path_prefix="'; DROP TABLE rag_chunk; --") == []
    assert retrieve(asked, harbour, phrases=("a' & b:* \\",)) == []


def test_the_vector_search_goes_through_its_index(harbour: Project) -> None:
    """The production query, with its filter; a descending order or another operator would read the whole table."""
    from rag.retrievers.vector import APPROXIMATE

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off")
        condition = "c.project_id = %s AND c.scope = ANY(%s)"
        cursor.execute(
            "EXPLAIN (FORMAT JSON) " + APPROXIMATE.format(condition=condition),
            [str(vector_of("boat").tolist()), harbour.pk, ["docs"], MODEL, 5],
        )
        (plan,) = cursor.fetchone()
    assert "rag_chunk_embedding" in json.dumps(plan)


def test_a_vector_of_another_model_is_no_candidate(harbour: Project) -> None:
    languages = scope_languages(project_id=harbour.pk, scopes=[Scope.DOCS], using="default")
    other = VectorRetriever(model="test/other", languages=languages, exact_scan_rows=1000, ef_search=100)
    where = SearchFilter(harbour.pk, (Scope.DOCS,))
    with transaction.atomic():
        assert other.retrieve(vector_of("boat"), where, limit=5) == []


def test_every_row_that_a_narrow_filter_leaves_is_found_through_the_index(db: None) -> None:
    """A filter that keeps 2 % of the rows: the plain index scan would end before it found them."""
    project = Project.objects.create(slug="wide", repository="/nowhere")
    rng = np.random.default_rng(7)
    texts = {f"docs/{place}.md": f"note {place}" for place in range(250)}
    texts |= {f"docs/rare/{place}.md": f"rare {place}" for place in range(6)}

    def random_vector(text: str) -> np.ndarray:
        vector = rng.normal(size=768).astype(np.float32)
        return vector / np.linalg.norm(vector)

    index_chunks(project, texts, model=MODEL, embed=random_vector)
    languages = scope_languages(project_id=project.pk, scopes=[Scope.DOCS], using="default")
    retriever = VectorRetriever(model=MODEL, languages=languages, exact_scan_rows=0, ef_search=10)
    with transaction.atomic():
        found = retriever.retrieve(random_vector(""), SearchFilter(project.pk, (Scope.DOCS,), "docs/rare/"), limit=10)
    assert len(found) == 6
