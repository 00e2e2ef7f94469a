"""The search: completed candidates, both fusions, and an answer that says what it lacks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from rag.core.errors import InvalidInput, ProjectNotReady
from rag.indexing import reindex
from rag.models import Chunk, Project, ProjectState
from rag.search import SearchAnswer, answer_json, search, search_code
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

DOCS = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/refunds.md": (
        "# Refunds\n\nA refund is issued within three working days after the skipper returns the berth.\n"
    ),
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/weather.md": "# Weather\n\nNorthern wind brings rain. It is what it is.\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nFloating point rounding lost cents in the ledger.\n",
    "src/toll.py": "def compute_toll(length, nights):\n    return int(length * 120) * nights\n",
    "src/guard.py": "def safe_join(root, relative):\n    return root / relative\n",
    "tests/test_guard.py": "def test_safe_join():\n    assert safe_join('a', 'b')\n",
}


@pytest.fixture
def lexical(project: MakeProject) -> Project:
    made = project(DOCS)
    reindex(project=made)
    return made


@pytest.fixture
def hybrid(project: MakeProject, ollama: OllamaServer) -> Project:
    made = project(DOCS)
    reindex(project=made)
    return made


def paths(answer: SearchAnswer) -> list[str]:
    return [hit.origin.source_path for hit in answer.hits]  # type: ignore[union-attr]


def test_the_passage_that_answers_comes_first_with_its_citation(hybrid: Project) -> None:
    hit = search(project=hybrid, query="when is a refund issued").hits[0]
    assert answer_json(search(project=hybrid, query="when is a refund issued"))["hits"][0]["origin"] == {
        "kind": "file",
        "sourcePath": "docs/refunds.md",
        "commit": hit.origin.commit,  # type: ignore[union-attr]
        "startLine": 1,
        "endLine": 3,
        "url": None,
        "headingPath": ["Refunds"],
        "title": "Refunds",
    }


def test_a_score_is_the_weighted_sum_of_both_signals(hybrid: Project) -> None:
    for hit in search(project=hybrid, query="berth pilot refund").hits:
        assert hit.score == pytest.approx(0.6 * (hit.vector_score or 0) + 0.4 * (hit.lexical_score or 0))


def test_a_chunk_that_shares_no_word_has_no_lexical_score_and_not_a_zero(hybrid: Project) -> None:
    settings_free = search(project=hybrid, query="refund", fusion="rrf")
    by_path = dict(zip(paths(settings_free), settings_free.hits, strict=True))
    assert by_path["docs/refunds.md"].lexical_score is not None
    assert by_path["docs/weather.md"].lexical_score is None
    assert by_path["docs/weather.md"].vector_score is not None


def test_the_vector_of_a_lexical_candidate_is_computed_too(hybrid: Project, settings: Any) -> None:
    """With one candidate a signal, each hit still carries both."""
    settings.RAG_CANDIDATES = 1
    for hit in search(project=hybrid, query="refund berth").hits:
        assert hit.vector_score is not None


def test_below_the_threshold_nothing_is_answered(hybrid: Project) -> None:
    assert search(project=hybrid, query="quantum chromodynamics lattice").hits == ()


def test_reciprocal_rank_fusion_knows_no_threshold_and_stays_below_its_bound(hybrid: Project) -> None:
    answer = search(project=hybrid, query="quantum refund", fusion="rrf")
    assert answer.threshold is None
    assert answer.hits
    assert all(0 < hit.score <= 2 / 61 for hit in answer.hits)


def test_without_the_provider_the_answer_is_lexical_and_says_so(hybrid: Project, ollama: OllamaServer) -> None:
    ollama.stop()
    answer = search(project=hybrid, query="floating point rounding of the ledger")
    assert not answer.vector_available
    assert answer.vector_unavailable_reason
    assert paths(answer)[0] == "docs/adr/0001-money.md"
    hit = answer.hits[0]
    assert hit.vector_score is None
    assert hit.score == hit.lexical_score
    assert answer.threshold == answer.profile.lexical_threshold


def test_a_project_without_vectors_says_that_nothing_is_embedded(lexical: Project, ollama: OllamaServer) -> None:
    answer = search(project=lexical, query="refund")
    assert not answer.vector_available
    assert "Nothing in the searched scopes is embedded" in str(answer.vector_unavailable_reason)
    assert paths(answer) == ["docs/refunds.md"]


def test_a_chunk_without_a_vector_never_outranks_its_embedded_twin(hybrid: Project) -> None:
    before = {hit.chunk_id: hit.score for hit in search(project=hybrid, query="refund berth skipper").hits}
    best = next(iter(before))
    Chunk.objects.filter(pk=best).update(embedding=None, embedding_model="")
    after = {hit.chunk_id: hit for hit in search(project=hybrid, query="refund berth skipper").hits}
    assert after[best].vector_score is None
    assert after[best].score == pytest.approx(0.4 * (after[best].lexical_score or 0))
    assert after[best].score < before[best]


def test_vectors_of_another_model_are_not_compared(hybrid: Project) -> None:
    Chunk.objects.update(embedding_model="ollama/another")
    answer = search(project=hybrid, query="refund")
    assert not answer.vector_available
    assert all(hit.vector_score is None for hit in answer.hits)


def test_stop_words_alone_leave_the_lexical_signal_out(hybrid: Project) -> None:
    answer = search(project=hybrid, query="what is it")
    assert not answer.lexical_available
    assert all(hit.lexical_score is None for hit in answer.hits)


def test_punctuation_is_answered_with_nothing_and_no_error(lexical: Project) -> None:
    for query in ("?!", "-", "( & |", "💥"):
        answer = search(project=lexical, query=query)
        assert not answer.lexical_available
        assert answer.hits == ()


def test_operators_are_text(lexical: Project) -> None:
    for query in ("refund:*", "refund & !berth", "refund OR", "-refund", '"unclosed refund', "refund) ("):
        assert "docs/refunds.md" in paths(search(project=lexical, query=query))


def test_a_quoted_phrase_must_occur_for_both_signals(hybrid: Project) -> None:
    assert paths(search(project=hybrid, query='"twenty metres"')) == ["docs/moorings.md"]
    assert search(project=hybrid, query='"metres twenty" berth').hits == ()


def test_what_is_excluded_is_not_answered(hybrid: Project) -> None:
    assert "docs/refunds.md" not in paths(search(project=hybrid, query="berth", exclude=["skipper"]))


def test_case_accents_and_unicode_form_do_not_matter(project: MakeProject) -> None:
    made = project(
        {"docs/a.md": "# Причал\n\nОплачивается зара́нее, ёлки.\n", "docs/b.md": "# Tempo\n"}, language="russian"
    )
    reindex(project=made)
    for query in ("ЗАРАНЕЕ", "елка", "причала"):
        assert paths(search(project=made, query=query)) == ["docs/a.md"]


def test_the_same_question_gives_the_same_order(hybrid: Project) -> None:
    first = search(project=hybrid, query="berth harbour toll")
    assert [hit.chunk_id for hit in first.hits] == [
        hit.chunk_id for hit in search(project=hybrid, query="berth harbour toll").hits
    ]


def test_scopes_default_to_documents_and_code_is_asked_for(hybrid: Project) -> None:
    assert {str(hit.scope) for hit in search(project=hybrid, query="compute toll").hits} <= {"docs", "adr"}
    assert paths(search(project=hybrid, query="compute toll", scopes=["code"]))[0] == "src/toll.py"


def test_code_is_fused_by_rank_and_the_definition_comes_before_its_test(lexical: Project) -> None:
    answer = search_code(project=lexical, query="safe_join")
    assert answer.fusion == "rrf"
    assert paths(answer)[0] == "src/guard.py"
    assert answer.hits[0].origin.symbol == "safe_join"  # type: ignore[union-attr]
    asked_for = search_code(project=lexical, query="test of safe_join")
    assert paths(asked_for)[0] == "tests/test_guard.py"


def test_code_is_found_by_other_inflections_of_its_words(lexical: Project) -> None:
    assert paths(search_code(project=lexical, query="where are the tolls computed"))[0] == "src/toll.py"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("query", {"query": " "}),
        ("query", {"query": "a\0b"}),
        ("query", {"query": "x" * 2001}),
        ("scopes", {"scopes": ["everything"]}),
        ("fusion", {"fusion": "sum"}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": 51}),
        ("pathPrefix", {"path_prefix": "a\0"}),
        ("exclude", {"exclude": ["\ud800"]}),
    ],
)
def test_bad_input_names_the_field(lexical: Project, field: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        search(project=lexical, **{"query": "refund", **arguments})
    assert raised.value.field == field


def test_a_project_that_is_not_ready_is_not_searched(lexical: Project) -> None:
    lexical.state = ProjectState.PAUSED
    with pytest.raises(ProjectNotReady) as raised:
        search(project=lexical, query="refund")
    assert raised.value.state == "paused"


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_question_is_embedded(hybrid: Project, ollama: OllamaServer) -> None:
    seen: list[bool] = []
    thread = threading.get_ident()

    def look(request: Any) -> None:
        seen.append(connection.in_atomic_block if threading.get_ident() == thread else open_transactions())

    ollama.fail(look)
    search(project=hybrid, query="a question that nobody asked before")
    assert seen == [False]


def open_transactions() -> bool:
    """Whether any other session of this database is inside a transaction."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%%'"
            )
            return bool(cursor.fetchone()[0])
    finally:
        connection.close()


def test_scopes_without_an_index_blame_neither_the_question_nor_the_provider(project: MakeProject) -> None:
    made = project({"docs/a.md": "# Harbour\n\nShips moor.\n"})
    for reindexes in (False, True):
        if reindexes:
            reindex(project=made, scopes=["docs"])
        answer = search(project=made, query="where is the path validated?", scopes=["code"])
        assert answer.hits == ()
        assert answer.vector_unavailable_reason == "Nothing is indexed in the searched scopes yet."
        assert (answer.vector_available, answer.lexical_available) == (False, True)
