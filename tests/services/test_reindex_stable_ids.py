"""A chunk's id is what it says and where it comes from: an edit elsewhere moves it, and leaves its id and vector."""

from __future__ import annotations

import pytest
from django.db import connection

from rag.indexing import reindex
from rag.models import Chunk, RetiredChunk
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.services.index_state import assert_as_built_from_nothing

SECTIONS = [f"## Berth {number}\n\nBerth {number} holds one boat of the fleet.\n" for number in range(8)]
BERTHS = "# Berths\n\nThe fleet.\n\n" + "\n".join(SECTIONS)


def test_an_edit_above_moves_a_chunk_and_keeps_its_id(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project({"docs/berths.md": BERTHS})
    reindex(project=made)
    last = Chunk.objects.get(content__contains="Berth 7 holds")
    make_repository({"docs/berths.md": BERTHS.replace("The fleet.", "The fleet\nhas eight\nboats.")})
    run = reindex(project=made)
    moved = Chunk.objects.get(pk=last.pk)
    assert moved.start_line == last.start_line + 2
    assert moved.content == last.content
    assert run.report["scopes"]["docs"]["created"] == 1
    assert_as_built_from_nothing(made)


@pytest.mark.django_db(transaction=True)
def test_moving_chunks_leaves_the_indexes_alone(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project({"docs/berths.md": BERTHS})
    reindex(project=made)
    make_repository({"docs/berths.md": BERTHS.replace("The fleet.", "The fleet\nof the harbour.")})
    before = heap_only_updates()
    run = reindex(project=made)
    assert run.report["scopes"]["docs"]["unchanged"] == 8
    # Those that their page has room for; an update that touches an index is never one of them.
    assert heap_only_updates() > before


def heap_only_updates() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'rag_chunk'")
        return int(cursor.fetchone()[0])


def test_a_renamed_file_has_new_ids_and_takes_its_vectors_along(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project({"docs/berths.md": BERTHS})
    reindex(project=made)
    sent, old = len(ollama.texts), set(Chunk.objects.values_list("pk", flat=True))
    make_repository({"docs/berths.md": None, "docs/moorings.md": BERTHS})
    run = reindex(project=made)
    assert (run.report["scopes"]["docs"]["created"], run.report["scopes"]["docs"]["deleted"]) == (9, 9)
    assert not old & set(Chunk.objects.values_list("pk", flat=True))
    assert len(ollama.texts) == sent
    assert (run.report["embedding"]["embedded"], run.report["embedding"]["reused"]) == (0, 9)
    assert set(RetiredChunk.objects.values_list("pk", flat=True)) == old


def test_a_chunk_that_comes_back_has_its_old_id_and_is_no_longer_retired(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    made = project({"docs/berths.md": BERTHS})
    reindex(project=made)
    old = set(Chunk.objects.values_list("pk", flat=True))
    make_repository({"docs/berths.md": "# Berths\n\nNone any more.\n"})
    reindex(project=made)
    assert RetiredChunk.objects.count() == 9
    make_repository({"docs/berths.md": BERTHS})
    reindex(project=made)
    assert set(Chunk.objects.values_list("pk", flat=True)) == old
    assert RetiredChunk.objects.count() == 1


def test_equal_passages_of_one_file_are_told_apart_by_their_number(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    again = "## Rule\n\nThe same rule for everybody.\n\n"
    made = project({"docs/rules.md": "# Rules\n\n" + again * 3})
    reindex(project=made)
    first = list(Chunk.objects.order_by("start_line").values_list("pk", flat=True))
    assert len(set(first)) == 3
    make_repository({"docs/rules.md": "# Rules\n\n" + again * 2})
    reindex(project=made)
    assert list(Chunk.objects.order_by("start_line").values_list("pk", flat=True)) == first[:2]
    assert_as_built_from_nothing(made)


def test_the_same_text_in_two_files_is_embedded_once(project: MakeProject, ollama: OllamaServer) -> None:
    made = project({"docs/a.md": BERTHS, "docs/b.md": BERTHS})
    run = reindex(project=made)
    assert len(ollama.texts) == len(set(ollama.texts)) == 9
    assert run.report["embedding"]["embedded"] == 18
    assert not Chunk.objects.filter(embedding=None).exists()
