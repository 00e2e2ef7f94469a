"""POST /api/projects/{slug}/rag/search and …/tools/search_code."""

from __future__ import annotations

from typing import Any

import pytest

from rag.indexing import reindex
from rag.models import Project, ProjectState
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers, post, post_raw
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects/demo/rag/search"
CODE_PATH = "/api/projects/demo/tools/search_code"

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay after sunset.\n",
    "docs/guide/lamps.md": "# Lamps\n\nThe lamps of the quay are lit by the warden.\n",
    "docs/adr/0001-quay.md": "# Use the northern quay\n\nThe southern quay is too shallow for ships.\n",
    "src/moor.py": 'def moor_ship(ship):\n    """Tie a ship to the quay."""\n    return ship\n',
}


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    """A project whose index is in step with its sources."""
    made = project(FILES)
    reindex(project=made)
    return made


def test_a_viewer_and_a_maintainer_search(indexed: Project) -> None:
    people = callers(indexed)
    for client in (people.viewer, people.maintainer):
        answer = post(client, PATH, {"query": "where do ships moor"})
        assert answer.status_code == 200
        assert_conforms(answer.json(), "SearchAnswer")
        origin = answer.json()["hits"][0]["origin"]
        assert (origin["kind"], origin["sourcePath"], origin["startLine"]) == ("file", "docs/harbour.md", 1)


def test_strangers_find_no_project(db: None) -> None:
    people = callers(bare_project())
    assert_closed_to_strangers(people, "POST", PATH, {"query": "quay"})
    assert_closed_to_strangers(people, "POST", CODE_PATH, {"query": "quay"})


def test_strangers_learn_nothing_from_a_body_that_is_wrong(db: None) -> None:
    people = callers(bare_project())
    assert_closed_to_strangers(people, "POST", PATH, {"query": ""})
    assert_closed_to_strangers(people, "GET", PATH)


def test_a_superuser_searches_every_project(indexed: Project, admin_client: Any) -> None:
    assert post(admin_client, PATH, {"query": "quay"}).status_code == 200


def test_a_missing_embedding_provider_is_declared(indexed: Project) -> None:
    answer = post(callers(indexed).viewer, PATH, {"query": "ships"}).json()
    assert answer["vectorAvailable"] is False
    assert answer["vectorUnavailableReason"]
    assert answer["hits"] and all(hit["vectorScore"] is None for hit in answer["hits"])


def test_filters_reach_the_search(indexed: Project) -> None:
    viewer = callers(indexed).viewer

    def paths(**body: Any) -> set[str]:
        hits = post(viewer, PATH, {"query": "quay", **body}).json()["hits"]
        return {hit["origin"]["sourcePath"] for hit in hits}

    assert paths() == {"docs/harbour.md", "docs/guide/lamps.md", "docs/adr/0001-quay.md"}
    assert paths(scopes=["adr"]) == {"docs/adr/0001-quay.md"}
    assert paths(pathPrefix="docs/guide/") == {"docs/guide/lamps.md"}
    assert paths(exclude=["warden"]) == {"docs/harbour.md", "docs/adr/0001-quay.md"}
    assert paths(sessionId="none") == set()
    assert len(paths(limit=1)) == 1
    assert post(viewer, PATH, {"query": "quay", "scopes": ["code"]}).json()["fusion"] == "rrf"
    assert post(viewer, PATH, {"query": "quay", "fusion": "rrf"}).json()["fusion"] == "rrf"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "query"),
    ({"query": ""}, "query"),
    ({"query": "  \n"}, "query"),
    ({"query": None}, "query"),
    ({"query": 7}, "query"),
    ({"query": True}, "query"),
    ({"query": ["quay"]}, "query"),
    ({"query": "x" * 2001}, "query"),
    ({"query": "a\0b"}, "query"),
    ({"query": "half a \ud83d"}, "query"),
    ({"query": "quay", "scopes": "docs"}, "scopes"),
    ({"query": "quay", "scopes": []}, "scopes"),
    ({"query": "quay", "scopes": ["docs", "wiki"]}, "scopes"),
    ({"query": "quay", "scopes": [["docs"]]}, "scopes"),
    ({"query": "quay", "scopes": ["\ud800"]}, "scopes"),
    ({"query": "quay", "fusion": "sum"}, "fusion"),
    ({"query": "quay", "fusion": None}, "fusion"),
    ({"query": "quay", "pathPrefix": 1}, "pathPrefix"),
    ({"query": "quay", "pathPrefix": "docs/\0"}, "pathPrefix"),
    ({"query": "quay", "sessionId": "\udfff"}, "sessionId"),
    ({"query": "quay", "exclude": "warden"}, "exclude"),
    ({"query": "quay", "exclude": [""]}, "exclude"),
    ({"query": "quay", "exclude": ["a\0"]}, "exclude"),
    ({"query": "quay", "exclude": ["word"] * 21}, "exclude"),
    ({"query": "quay", "limits": 3}, "limits"),
    ({"query": "quay", "path_prefix": "docs"}, "path_prefix"),
]


@pytest.mark.parametrize(("body", "field"), WRONG, ids=lambda value: value if isinstance(value, str) else None)
def test_what_is_wrong_is_refused_by_the_fields_name(db: None, body: dict[str, Any], field: str) -> None:
    answer = post(callers(bare_project()).viewer, PATH, body)
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert all(isinstance(sentence, str) for sentence in answer.json()[field])


@pytest.mark.parametrize("limit", [-1, 0, 51, 100000, 10**30, "abc", "8", "5.0", 5.0, 1e3, "", "٣", None, True, [8]])
def test_a_limit_that_is_no_whole_number_of_the_range_is_refused_with_the_range(db: None, limit: Any) -> None:
    viewer = callers(bare_project()).viewer
    refused = ["Must be a whole number from 1 to 50."]
    answer = post(viewer, PATH, {"query": "quay", "limit": limit})
    assert (answer.status_code, answer.json()) == (400, {"limit": refused})
    answer = post(viewer, CODE_PATH, {"query": "quay", "k": limit})
    assert (answer.status_code, answer.json()) == (400, {"k": refused})


def test_every_wrong_field_is_named_at_once(db: None) -> None:
    answer = post(callers(bare_project()).viewer, PATH, {"limit": 0, "fusion": "sum", "fields": 1})
    assert set(answer.json()) == {"query", "limit", "fusion", "fields"}


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"query=quay",
        b'{"query": "quay", "limit": NaN}',
        b'{"query": "quay", "limit": Infinity}',
        b'{"query": "quay", "limit": ' + b"9" * 5000 + b"}",
        b'{"query": "caf\xe9"}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'"quay"',
        b'["quay"]',
        b"null",
    ],
    ids=lambda raw: raw[:24].decode("latin-1"),
)
def test_a_body_that_is_no_json_object_is_refused_in_a_sentence(db: None, raw: bytes) -> None:
    answer = post_raw(callers(bare_project()).viewer, PATH, raw)
    assert answer.status_code == 400
    assert list(answer.json()) == ["detail"]


def test_a_form_is_refused(db: None) -> None:
    answer = post_raw(callers(bare_project()).viewer, PATH, b"query=quay", "application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert list(answer.json()) == ["detail"]


def test_a_body_without_bounds_is_not_read(db: None) -> None:
    answer = post(callers(bare_project()).viewer, PATH, {"query": "x" * 300_000})
    assert answer.status_code == 413
    assert list(answer.json()) == ["detail"]


def test_a_chunked_body_is_not_taken_for_none(db: None) -> None:
    viewer = callers(bare_project()).viewer
    answer = viewer.generic("POST", PATH, b"", content_type="application/json", HTTP_TRANSFER_ENCODING="chunked")
    assert (answer.status_code, list(answer.json())) == (411, ["detail"])


def test_a_hostile_field_name_is_named_without_harm(db: None) -> None:
    answer = post(callers(bare_project()).viewer, PATH, {"query": "quay", "\ud800" + "x" * 10_000: 1})
    assert answer.status_code == 400
    assert len(answer.content) < 1000


def test_a_project_that_is_not_ready_is_not_searched(db: None) -> None:
    made = bare_project()
    Project.objects.filter(pk=made.pk).update(state=ProjectState.PAUSED)
    viewer = callers(made).viewer
    for path in (PATH, CODE_PATH):
        answer = post(viewer, path, {"query": "quay"})
        assert answer.status_code == 409
        assert answer.json()["state"] == "paused"
        assert_conforms(answer.json(), "Conflict")


def test_search_code_answers_with_symbols(indexed: Project) -> None:
    people = callers(indexed)
    for client in (people.viewer, people.maintainer):
        answer = post(client, CODE_PATH, {"query": "moor_ship", "k": 3, "pathPrefix": "src/"})
        assert answer.status_code == 200
        assert_conforms(answer.json(), "SearchAnswer")
        assert answer.json()["hits"][0]["origin"]["symbol"] == "moor_ship"


def test_a_search_is_a_post(indexed: Project) -> None:
    viewer = callers(indexed).viewer
    for method in ("get", "put", "patch", "delete", "options"):
        answer = getattr(viewer, method)(PATH)
        assert answer.status_code == 405
        assert list(answer.json()) == ["detail"]
