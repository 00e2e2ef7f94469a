"""GET /api/projects/{slug}/rag/coverage."""

from __future__ import annotations

from pathlib import Path

from rag.indexing import reindex
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects/demo/rag/coverage"
FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor here.\n",
    "docs/picture.md": b"\x89PNG\r\n\x1a\n\0\0",
    "src/moor.py": "def moor():\n    return 1\n",
}


def test_a_viewer_and_a_maintainer_read_the_coverage(project: MakeProject) -> None:
    made = project(FILES)
    people = callers(made)
    before = people.viewer.get(PATH)
    assert before.status_code == 200
    assert_conforms(before.json(), "Coverage")
    assert before.json()["lastRun"] is None
    reindex(project=made)
    for client in (people.viewer, people.maintainer):
        after = client.get(PATH).json()
        assert_conforms(after, "Coverage")
        docs = after["scopes"]["docs"]
        assert (docs["total"], docs["indexed"], docs["missing"], sum(docs["skipped"].values())) == (1, 1, 0, 1)
        assert after["headCommit"] == after["indexedCommit"]
        assert after["lastRun"]["state"] == "succeeded"


def test_strangers_find_no_project(db: None) -> None:
    assert_closed_to_strangers(callers(bare_project()), "GET", PATH)


def test_a_repository_out_of_reach_is_a_503_in_plain_words(project: MakeProject, tmp_path: Path) -> None:
    made = project(FILES)
    (tmp_path / "repo").rename(tmp_path / "gone")
    answer = callers(made).viewer.get(PATH)
    assert answer.status_code == 503
    assert list(answer.json()) == ["detail"]
