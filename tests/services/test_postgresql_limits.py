"""What PostgreSQL's text search cannot do, and what people get all the same."""

from __future__ import annotations

import hashlib

import pytest
from django.core.management.base import CommandError
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.state import ProjectState as State

from rag.indexing import reindex
from rag.models import Chunk, Project
from rag.models.operations import Extension
from rag.search import search
from tests.conftest import MakeProject


def indexed(project: Project) -> Project:
    """The project with an index of its documents."""
    reindex(project=project, scopes=["docs", "adr"])
    return project


def places(project: Project, query: str) -> list[str]:
    """The paths of the hits, best first."""
    return [str(getattr(hit.origin, "source_path", "")) for hit in search(project=project, query=query).hits]


@pytest.mark.django_db
def test_a_document_of_a_hundred_thousand_different_words_is_indexed_whole(project: MakeProject) -> None:
    # As one vector its lexemes would pass the megabyte that a tsvector may have.
    words = " ".join(hashlib.md5(str(number).encode()).hexdigest()[:9] for number in range(100_000))
    found = indexed(project({"docs/words.md": words, "docs/other.md": "# Other\n\nA ship.\n"}))
    assert Chunk.objects.filter(project=found).count() > 800
    assert places(found, words[-9:]) == ["docs/words.md"]
    assert places(found, "ship") == ["docs/other.md"]


@pytest.mark.django_db
def test_a_phrase_in_the_tail_of_a_long_document_is_found_and_cited_there(project: MakeProject) -> None:
    # Positions in one tsvector stop at 16,383.
    lines = [f"k{number} k{number + 1}" for number in range(1, 20_001, 2)]
    found = indexed(project({"docs/long.md": "\n".join(lines)}))
    hit = search(project=found, query='"k19001 k19002"').hits[0]
    assert "k19001 k19002" in hit.content
    assert getattr(hit.origin, "start_line", 0) <= 9501 <= getattr(hit.origin, "end_line", 0)


@pytest.mark.django_db
def test_inflected_words_are_found_in_the_projects_language(project: MakeProject) -> None:
    texts = {"docs/db.md": "# Миграции\n\nПеред миграцией базы делается копия.\n", "docs/x.md": "# Погода\n\nВетер.\n"}
    russian = indexed(project(texts, language="russian"))
    for query in ("миграция", "копии баз", "МИГРАЦИЮ"):
        assert places(russian, query) == ["docs/db.md"], query


@pytest.mark.django_db
def test_a_short_text_about_the_word_comes_before_a_long_one_that_repeats_it(project: MakeProject) -> None:
    log = "# Log\n\n" + " ".join(f"The worker wrote entry {n} to the cache and went on." for n in range(18))
    found = indexed(project({"docs/adr/0001-cache.md": "# Cache\n\nWe keep one.\n", "docs/log.md": log}))
    assert places(found, "cache")[0] == "docs/adr/0001-cache.md"


@pytest.mark.django_db
def test_the_servers_default_configuration_changes_nothing(project: MakeProject) -> None:
    found = indexed(project({"docs/a.md": "# Services\n\nEach service has an owner.\n"}))
    with connection.cursor() as cursor:
        for default in ("pg_catalog.simple", "pg_catalog.russian"):
            cursor.execute("SET default_text_search_config = %s", [default])
            assert places(found, "owners of services") == ["docs/a.md"]
        cursor.execute("RESET default_text_search_config")


@pytest.mark.django_db(transaction=True)
def test_after_a_reindex_no_search_has_to_read_a_pending_list(project: MakeProject) -> None:
    indexed(project({f"docs/{number}.md": f"# Note {number}\n\nShip {number}.\n" for number in range(50)}))
    with connection.cursor() as cursor:
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_search_vector')")
        assert cursor.fetchone() == (0,)


@pytest.mark.django_db(transaction=True)
def test_a_missing_privilege_is_answered_with_the_line_for_the_dba() -> None:
    # The bundled server has the extension in every database but those made from template0.
    name = f"{connection.settings_dict['NAME']}_bare"
    with connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
        cursor.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
    bare: BaseDatabaseWrapper = connections.create_connection("default")
    bare.settings_dict = {**bare.settings_dict, "NAME": name}
    try:
        with (
            pytest.raises(
                CommandError, match='superuser run in that database: CREATE EXTENSION IF NOT EXISTS "vector"'
            ),
            bare.schema_editor() as editor,
        ):
            Extension("vector").database_forwards("rag", editor, State(), State())
    finally:
        bare.close()
        with connection.cursor() as cursor:
            cursor.execute(f'DROP DATABASE IF EXISTS "{name}"')
