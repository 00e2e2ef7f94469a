"""A run's result is a function of the sources alone; a run that finds nothing new changes nothing and costs little."""

from __future__ import annotations

from typing import Any

import pytest

from rag.indexing import reindex
from rag.models import IndexRun, Project, ScopeIndex
from tests.conftest import Git, MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.services.index_state import assert_as_built_from_nothing, index_state

FILES = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/berths.md": "# Berths\n\nA berth longer than twenty metres needs a pilot.\n\n## Nights\n\nPaid in advance.\n",
    "docs/picture.md": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4,
    "docs/adr/0001-money.md": "# Store money as integers\n\nRounding lost cents.\n",
    "src/toll.py": 'def toll(metres):\n    """Price in cents."""\n    return metres * 120\n',
    "src/big.py": "x = 1\n" * 300_000,
    ".env": "TOKEN=abc\n",
    "docs/adr/id_rsa": "not for anybody\n",
}


def phases(project: Project, **options: Any) -> tuple[IndexRun, list[str]]:
    """A run, and the phases it went through."""
    seen: list[str] = []
    run = reindex(project=project, watcher=lambda phase, *_: seen.append(phase), **options)
    return run, list(dict.fromkeys(seen))


def counts(run: IndexRun) -> dict[str, tuple[int, int]]:
    return {name: (scope["created"], scope["deleted"]) for name, scope in run.report["scopes"].items()}


def told(run: IndexRun) -> dict[str, Any]:
    """The part of the report that a second run repeats."""
    scopes = {
        name: {**scope, "unchanged": scope["unchanged"] + scope["created"], "created": 0}
        for name, scope in run.report["scopes"].items()
    }
    return {"scopes": scopes, "skippedFiles": run.report["skippedFiles"], "commit": run.report["commit"]}


def test_a_second_run_changes_nothing_and_tells_the_same(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    first, _ = phases(made)
    state = index_state(made)
    sent = len(ollama.calls)
    second, seen = phases(made)
    assert index_state(made) == state
    assert set(counts(second).values()) == {(0, 0)}
    assert told(second) == told(first)
    assert len(ollama.calls) == sent
    assert second.report["embedding"]["available"] is None
    assert second.report["embedding"]["reused"] == first.report["embedding"]["embedded"] == 5
    assert {item["path"] for item in second.report["skippedFiles"]} == {
        *("docs/picture.md", "src/big.py", ".env", "docs/adr/id_rsa")
    }
    assert "reading" not in seen


def test_the_same_files_in_a_new_commit_are_not_even_listed(
    project: MakeProject, make_repository: MakeRepository, git: Git
) -> None:
    made = project(FILES)
    reindex(project=made)
    state = index_state(made)
    git(make_repository({}), "commit", "--quiet", "--allow-empty", "--message=Nothing new")
    run, seen = phases(made)
    assert "reading" not in seen
    assert run.commit == git(make_repository({}), "rev-parse", "HEAD~1") or run.commit != ""
    assert set(ScopeIndex.objects.filter(project=made, scope="docs").values_list("commit", flat=True)) == {run.commit}
    # A chunk keeps the commit at which its blob was indexed.
    assert index_state(made) == state


def test_one_changed_file_is_the_only_one_read(project: MakeProject, make_repository: MakeRepository) -> None:
    made = project(FILES)
    reindex(project=made)
    make_repository({"docs/berths.md": "# Berths\n\nA berth longer than thirty metres needs a pilot.\n"})
    read: list[int] = []
    run = reindex(project=made, watcher=lambda phase, done, total: read.append(total) if phase == "reading" else None)
    assert max(read) == 1
    assert counts(run) == {"docs": (1, 2), "adr": (0, 0), "session": (0, 0), "code": (0, 0)}
    assert_as_built_from_nothing(made)


def test_a_one_file_change_embeds_only_its_changed_chunks(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(FILES)
    reindex(project=made)
    before = len(ollama.texts)
    text = str(FILES["docs/berths.md"]).replace("Paid in advance", "Paid when leaving")
    make_repository({"docs/berths.md": text})
    run = reindex(project=made)
    (sent,) = ollama.texts[before:]
    assert "Paid when leaving" in sent
    assert (run.report["embedding"]["embedded"], run.report["embedding"]["reused"]) == (1, 4)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"docs_path": "guide"}, id="another folder"),
        pytest.param({"language": "portuguese"}, id="another language"),
        pytest.param({"slug": "renamed"}, id="another slug"),
    ],
)
def test_a_changed_project_is_looked_at_again(
    project: MakeProject, make_repository: MakeRepository, change: dict[str, str]
) -> None:
    made = project({**FILES, "guide/tides.md": "# Tides\n\nAs marés sobem duas vezes.\n"})
    reindex(project=made)
    Project.objects.filter(pk=made.pk).update(**change)
    made.refresh_from_db()
    _, seen = phases(made)
    assert "reading" in seen
    assert_as_built_from_nothing(made)


def test_other_chunk_sizes_cut_every_file_again(project: MakeProject, settings: Any) -> None:
    made = project({**FILES, "docs/long.md": "# Long\n\n" + "A sentence about the tides. " * 60})
    reindex(project=made)
    settings.CHUNK_TARGET_CHARS = 400
    run, seen = phases(made)
    assert "reading" in seen and run.report["scopes"]["docs"]["created"] > 1
    assert_as_built_from_nothing(made)


def test_each_scope_remembers_for_itself_what_it_has_seen(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    made = project(FILES)
    reindex(project=made)
    make_repository({"docs/new.md": "# New\n\nA pontoon.\n", "src/new.py": "def pontoon():\n    return 1\n"})
    reindex(project=made, scopes=["docs"])
    assert "reading" not in phases(made, scopes=["docs"])[1]
    run, seen = phases(made)
    assert "reading" in seen
    assert counts(run) == {"docs": (0, 0), "adr": (0, 0), "session": (0, 0), "code": (1, 0)}
    assert_as_built_from_nothing(made)


def test_refused_names_are_told_by_every_run_whatever_its_scopes(project: MakeProject) -> None:
    made = project(FILES)
    names = {".env", "docs/adr/id_rsa"}
    for scopes in (["docs"], ["docs"], None, None, ["code"], ["docs"], ["adr"]):
        run = reindex(project=made, scopes=scopes)
        assert names <= {item["path"] for item in run.report["skippedFiles"]}, scopes
        assert len({item["path"] for item in run.report["skippedFiles"]}) == len(run.report["skippedFiles"])


def test_a_run_without_changes_still_fills_the_gap_of_missing_vectors(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    ollama.stop()
    assert reindex(project=made).report["embedding"]["skipped"] == 5
    ollama.start()
    run, seen = phases(made)
    assert "reading" not in seen
    assert (run.report["embedding"]["embedded"], run.report["embedding"]["skipped"]) == (5, 0)


def test_from_scratch_looks_at_everything_and_changes_nothing_that_is_right(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    reindex(project=made)
    state = index_state(made)
    ScopeIndex.objects.filter(project=made, scope="docs").update(total_length=99, lengths=b"\x09\x00")
    run, seen = phases(made, from_scratch=True)
    assert "reading" in seen
    assert set(counts(run).values()) == {(0, 0)}
    assert index_state(made) == state
    assert len(ollama.texts) == 2 * 5
    assert run.report["embedding"]["embedded"] == 5
