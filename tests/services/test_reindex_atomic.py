"""Searchers see the old index or the new one, never a mixture; no transaction is open while others work for a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, connection, connections

from rag.indexing import reindex
from rag.models import IndexRun
from rag.search import search
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer, Request
from tests.services.index_state import assert_as_built_from_nothing, index_state

pytestmark = pytest.mark.django_db(transaction=True)


def edition(number: int) -> dict[str, str]:
    """All files of one edition: every passage names it."""
    files = {f"docs/{n}.md": f"# Tide {n}\n\nTide table {n} of edition {number}.\n" for n in range(12)}
    return files | {f"docs/adr/{n}.md": f"# Rule {n}\n\nTide rule {n} of edition {number}.\n" for n in range(4)}


@pytest.fixture
def poison() -> Iterator[None]:
    """PostgreSQL itself refuses a passage."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'poison' USING ERRCODE = '22000'; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON rag_chunk FOR EACH ROW"
            " WHEN (NEW.content LIKE '%%edition 2%%' AND NEW.scope = 'adr') EXECUTE FUNCTION refuse()"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION refuse CASCADE")


def test_a_swap_that_fails_half_way_leaves_the_old_index_whole(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer, poison: None
) -> None:
    made = project(edition(1))
    reindex(project=made)
    old = index_state(made)
    make_repository(edition(2))
    with pytest.raises(DataError, match="poison"):
        reindex(project=made)
    run = IndexRun.objects.latest("created_at")
    assert (run.state, run.report) == ("failed", {})
    assert "poison" not in run.error
    assert index_state(made) == old
    make_repository(edition(3))
    assert reindex(project=made).state == "succeeded"
    assert_as_built_from_nothing(made)


def test_searches_beside_a_run_see_one_edition_each(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(edition(1))
    reindex(project=made)
    is_over = threading.Event()
    seen: list[set[str]] = []
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            while not is_over.is_set():
                answer = search(project=made, query="tide table rule", limit=20)
                seen.append({hit.content.split("edition ")[1][0] for hit in answer.hits})
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(2, 8):
        make_repository(edition(number))
        reindex(project=made)
    is_over.set()
    asking.join()
    assert not failures
    assert len(seen) > 5 and all(len(editions) == 1 for editions in seen)


def test_no_transaction_is_open_while_the_provider_works(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    states: list[Any] = []
    parameters = connection.get_connection_params()

    def look(request: Request) -> None:
        import psycopg

        names = ("dbname", "host", "port", "user", "password")
        with psycopg.connect(**{name: parameters[name] for name in names if name in parameters}) as other:
            states.extend(
                other.execute(
                    "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    " AND backend_type = 'client backend'"
                ).fetchall()
            )

    ollama.fail(look)
    reindex(project=project(edition(1)))
    # The run's own connection and the one that holds its lock.
    assert len(states) >= 2 and set(states) == {("idle",)}
