"""Files that are gone, renamed, ignored or refused leave the index; one bad file never stops a run."""

from __future__ import annotations

import pytest

from rag.core.types import Scope
from rag.indexing import reindex
from rag.models import Chunk, Project, SourceFile
from rag.search import search
from tests.conftest import Files, Git, MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.services.index_state import assert_as_built_from_nothing

FILES: Files = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/berths.md": "# Berths\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/tides.md": "# Tides\n\nThe tide rises twice a day.\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nRounding lost cents.\n",
    "src/toll.py": 'def toll(metres):\n    """Price in cents."""\n    return metres * 120\n',
}
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq0Y7n8\n" * 12 + "-----END RSA PRIVATE KEY-----\n"


def paths(project: Project) -> set[str]:
    return set(Chunk.objects.filter(project=project).values_list("origin_key", flat=True))


def skipped(project: Project) -> dict[str, str]:
    report = reindex(project=project).report
    return {item["path"]: item["reason"] for item in report["skippedFiles"]}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"docs/tides.md": None}, id="deleted"),
        pytest.param({"docs/tides.md": None, "docs/moon.md": FILES["docs/tides.md"]}, id="renamed"),
        pytest.param({".ragignore": "docs/tides.md\n"}, id="ignored"),
        pytest.param({"docs/tides.md": f"# Tides\n\n{KEY}\nThe tide rises twice a day.\n"}, id="refused by its text"),
        pytest.param({"docs/tides.md": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9}, id="binary now"),
        pytest.param({"docs/tides.md": "x" * 1_100_000}, id="too large now"),
        pytest.param({"docs/tides.md": None, "docs/adr/tides.md": FILES["docs/tides.md"]}, id="in another scope now"),
    ],
)
def test_what_left_the_sources_leaves_the_index_in_one_run(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer, change: Files
) -> None:
    made = project(FILES)
    reindex(project=made)
    assert "docs/tides.md" in paths(made)
    make_repository(change)
    run = reindex(project=made)
    assert "docs/tides.md" not in paths(made)
    assert run.report["scopes"]["docs"]["deleted"] == 1
    assert all("docs/tides.md" not in str(hit.origin) for hit in search(project=made, query="when does the tide").hits)
    assert not SourceFile.objects.filter(path="docs/tides.md", skip_reason="").exists()
    assert_as_built_from_nothing(made)


def test_a_file_that_is_allowed_again_comes_back(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project({**FILES, ".ragignore": "docs/tides.md\n"})
    assert skipped(made) == {"docs/tides.md": "listed in .ragignore"}
    make_repository({".ragignore": None})
    assert skipped(made) == {}
    assert "docs/tides.md" in paths(made)
    assert_as_built_from_nothing(made)


def test_the_last_file_of_a_scope_leaves_an_empty_one(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project(FILES)
    reindex(project=made)
    make_repository({path: None for path in FILES if path != "README.md"})
    run = reindex(project=made)
    assert paths(made) == {"README.md"}
    assert {name: scope["deleted"] for name, scope in run.report["scopes"].items()} == {
        "docs": 2,
        "adr": 1,
        "session": 0,
        "code": 1,
    }
    assert_as_built_from_nothing(made)


def test_another_repository_under_the_same_project_replaces_everything(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    made = project(FILES)
    reindex(project=made)
    other = make_repository({"docs/other.md": "# Other\n\nAnother product.\n"}, "other")
    Project.objects.filter(pk=made.pk).update(repository=str(other))
    made.refresh_from_db()
    reindex(project=made)
    assert paths(made) == {"docs/other.md"}
    assert_as_built_from_nothing(made)


def test_every_bad_file_is_told_and_the_good_ones_are_indexed(project: MakeProject) -> None:
    made = project(
        {
            **FILES,
            "docs/latin.md": "# Café\n\nDéjà vu.\n".encode("latin-1"),
            "docs/picture.md": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9,
            "docs/pointer.md": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "docs/huge.md": "# Huge\n" + "x" * 1_100_000,
            "docs/key.md": f"# Key\n\n{KEY}",
            "docs/blank.md": " \n\n",
            "docs/.env.md/x.md": "# Refused folder\n",
            "keys/server.pem": KEY,
        }
    )
    told = skipped(made)
    assert set(told) == {
        *("docs/latin.md", "docs/picture.md", "docs/pointer.md", "docs/huge.md", "docs/key.md", "keys/server.pem"),
        "docs/.env.md/x.md",
    }
    assert told["docs/picture.md"] == "binary" and told["docs/latin.md"] == "not UTF-8"
    assert "private key" in told["docs/key.md"]
    assert paths(made) == set(FILES)
    assert not Chunk.objects.filter(content__contains="BEGIN RSA").exists()


def test_an_object_that_git_has_lost_is_told_and_read_as_soon_as_it_is_back(
    project: MakeProject, make_repository: MakeRepository, git: Git
) -> None:
    made = project(FILES)
    repository = make_repository({})
    blob = git(repository, "rev-parse", "HEAD:docs/tides.md")
    lost = repository / ".git" / "objects" / blob[:2] / blob[2:]
    kept = lost.read_bytes()
    lost.unlink()
    for _ in range(2):
        assert skipped(made) == {"docs/tides.md": "missing or damaged git object"}
    assert paths(made) == set(FILES) - {"docs/tides.md"}
    lost.write_bytes(kept)
    assert skipped(made) == {}
    assert paths(made) == set(FILES)


def test_a_file_of_code_is_counted_by_its_language(project: MakeProject) -> None:
    made = project({**FILES, "src/mess.sql": "SELECT 1;\n"})
    code = reindex(project=made, scopes=[Scope.CODE]).report["scopes"]["code"]
    assert set(code["languages"]) == {"python", "sql"}
    assert code["files"] == sum(counts["files"] for counts in code["languages"].values()) == 2
    assert code["created"] == sum(counts["chunks"] for counts in code["languages"].values())


def test_several_processes_cut_the_same_index(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str | bytes] = {
        f"docs/page{n}.md": f"# Page {n}\n\nThe text of page {n}.\n\n## Part\n\nMore.\n" for n in range(30)
    }
    made = project(
        {**files, "docs/picture.md": b"\x89PNG\r\n\x1a\n" + bytes(99), "src/a.py": "def f():\n    return 1\n"}
    )
    monkeypatch.setattr("rag.cutters.pool.WORTH_IT", 2)
    monkeypatch.setattr("rag.cutters.pool.BATCH_CHARS", 200)
    reindex(project=made, embed=False)
    monkeypatch.undo()
    assert_as_built_from_nothing(made)
