"""Runs whose provider was away or refused a text: what is declared, and what the next run does about it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from rag.indexing import reindex
from rag.indexing.report import has_gap
from rag.models import Chunk, Project
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer, Request, nan_500

FILES = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/berths.md": "# Berths\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/cursed.md": "# Cursed\n\nThe model fails on the word xyzzy.\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nRounding lost cents.\n",
}


@pytest.fixture
def harbour(project: MakeProject) -> Project:
    """A project of four documents of one passage each."""
    return project(FILES)


def run(project: Project, **options: Any) -> dict[str, Any]:
    """The embedding part of a run's report."""
    done = reindex(project=project, scopes=["docs", "adr"], **options)
    return {**done.report["embedding"], "gap": has_gap(done.report)}


@pytest.mark.django_db(transaction=True)
def test_what_the_provider_missed_is_declared_and_filled_by_the_next_run_alone(
    harbour: Project, ollama: OllamaServer
) -> None:
    ollama.stop()
    away = run(harbour)
    assert (away["available"], away["embedded"], away["skipped"], away["gap"]) == (False, 0, 4, True)
    assert "cannot be reached" in away["reason"]
    ids = set(Chunk.objects.values_list("pk", flat=True))
    ollama.start()
    back = run(harbour)
    assert (back["available"], back["embedded"], back["reused"], back["gap"]) == (True, 4, 0, False)
    assert set(Chunk.objects.values_list("pk", flat=True)) == ids
    assert len(ollama.texts) == 4


@pytest.mark.django_db(transaction=True)
def test_vectors_are_not_lost_to_a_run_without_the_provider(harbour: Project, ollama: OllamaServer) -> None:
    run(harbour)
    ollama.stop()
    later = run(harbour)
    assert (later["available"], later["reused"], later["gap"]) == (None, 4, False)
    assert not Chunk.objects.filter(embedding=None).exists()


@pytest.mark.django_db(transaction=True)
def test_a_text_that_always_fails_is_tried_again_on_request_alone(harbour: Project, ollama: OllamaServer) -> None:
    ollama.fail(nan_500("xyzzy"))
    first = run(harbour)
    assert (first["available"], first["embedded"], first["failed"], first["gap"]) == (True, 3, 1, True)
    asked = len(ollama.calls)
    for _ in range(2):
        again = run(harbour)
        assert (again["failed"], again["gap"]) == (1, True)
    assert len(ollama.calls) == asked
    ollama.heal()
    assert run(harbour, retry_failed=True)["failed"] == 0
    assert not Chunk.objects.filter(embedding=None).exists()


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_passages_are_embedded(harbour: Project, ollama: OllamaServer) -> None:
    states: list[str] = []

    def look(request: Request) -> None:
        """In the server's thread, on a connection of its own: what the run's connections are doing."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT state FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                states.extend(row[0] for row in cursor.fetchall())
        finally:
            connection.close()

    ollama.fail(look)
    run(harbour)
    assert states and set(states) == {"idle"}
