"""GET /api/projects/{slug}/rag/chunks/{chunkId}."""

from __future__ import annotations

from uuid import uuid4

import pytest

from rag.indexing import reindex
from rag.models import Chunk
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects/demo/rag/chunks"
FILES = {"docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n"}


def test_a_viewer_and_a_maintainer_verify_a_citation(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project(FILES)
    reindex(project=made)
    chunk = Chunk.objects.get(project=made)
    people = callers(made)
    for client in (people.viewer, people.maintainer):
        answer = client.get(f"{PATH}/{chunk.pk}")
        assert answer.status_code == 200
        assert_conforms(answer.json(), "Citation")
        assert (answer.json()["verified"], answer.json()["standing"]) == (True, "current")
        assert answer.json()["content"] == chunk.content
    make_repository({"docs/harbour.md": "Preface.\n\n" + FILES["docs/harbour.md"]})
    moved = people.viewer.get(f"{PATH}/{chunk.pk}").json()
    assert_conforms(moved, "Citation")
    assert (moved["verified"], moved["standing"], moved["movedTo"]["startLine"]) == (True, "moved", 3)
    make_repository({"docs/harbour.md": None})
    reindex(project=made)
    retired = people.viewer.get(f"{PATH}/{chunk.pk}").json()
    assert_conforms(retired, "Citation")
    assert (retired["verified"], retired["standing"], retired["retired"]) == (True, "gone", True)


def test_strangers_find_no_project(project: MakeProject) -> None:
    made = project(FILES)
    reindex(project=made)
    people = callers(made)
    assert_closed_to_strangers(people, "GET", f"{PATH}/{Chunk.objects.get().pk}")
    assert_closed_to_strangers(people, "GET", f"{PATH}/{uuid4()}")


def test_another_projects_chunk_does_not_exist_here(project: MakeProject) -> None:
    made = bare_project()
    other = project(FILES, slug="other")
    reindex(project=other)
    viewer = callers(made).viewer
    foreign = viewer.get(f"{PATH}/{Chunk.objects.get(project=other).pk}")
    assert foreign.status_code == 404
    assert foreign.json() == viewer.get(f"{PATH}/{uuid4()}").json()


@pytest.mark.parametrize("chunk_id", ["1", "no-uuid", "urn:uuid:00000000-0000-0000-0000-000000000000"])
def test_an_id_that_cannot_exist_is_not_found(db: None, chunk_id: str) -> None:
    viewer = callers(bare_project()).viewer
    answer = viewer.get(f"{PATH}/{chunk_id}")
    assert answer.status_code == 404
    assert answer.json() == viewer.get(f"{PATH}/{uuid4()}").json()
