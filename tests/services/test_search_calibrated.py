"""What a calibrated profile changes of a search, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from rag.core.fusion import FusionProfile
from rag.indexing import reindex
from rag.models import Project
from rag.search import search
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def harbour(project: MakeProject, settings: Any) -> Iterator[Project]:
    with OllamaServer() as server:
        settings.OLLAMA_BASE_URL = server.url
        made = project(
            {
                "docs/berth.md": "# Berth\n\nA berth is booked.\n",
                "src/toll.py": "def toll():\n    return 'a toll of ten'\n",
            }
        )
        reindex(project=made)
        yield made


def calibrate(project: Project, **changes: Any) -> None:
    """Store a profile as calibrating does."""
    profile = FusionProfile(name="calibrated", calibrated_at="2024-05-01T12:00:00+00:00")
    project.profile = {**asdict(profile), **changes}
    project.save()


def test_calibrating_documents_leaves_the_scores_of_code_alone(harbour: Project) -> None:
    before = [hit.score for hit in search(project=harbour, query="toll of ten", scopes=["code"]).hits]
    calibrate(harbour)
    assert [hit.score for hit in search(project=harbour, query="toll of ten", scopes=["code"]).hits] == before


def test_the_threshold_of_the_questions_language_applies(harbour: Project) -> None:
    calibrate(harbour, threshold=0.3, byLanguage={"russian": {"threshold": 0.05}})
    assert search(project=harbour, query="when is a berth booked").threshold == 0.3
    assert search(project=harbour, query="когда бронируется причал").threshold == 0.05


def test_a_filter_that_leaves_nothing_does_not_make_the_search_degraded(harbour: Project) -> None:
    answer = search(project=harbour, query="berth", path_prefix="nowhere/")
    assert answer.hits == ()
    assert answer.vector_available


def test_a_provider_that_is_set_up_wrongly_degrades_the_search(harbour: Project, settings: Any) -> None:
    settings.RAG_EMBEDDING_PROVIDER = "openai"
    answer = search(project=harbour, query="berth booked")
    assert not answer.vector_available
    assert "RAG_EMBEDDING_MODEL" in str(answer.vector_unavailable_reason)
    assert answer.hits
