"""Coverage: what the index holds against what the repository, the session log and the model say now."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from rag.core.errors import SourceUnavailable
from rag.core.paths import scope_of
from rag.coverage import coverage
from rag.indexing import reindex
from rag.models import Chunk, EmbeddingFailure, IndexRun, Project, RunState, Session, SessionEvent
from tests.conftest import Files, Git, MakeProject, MakeRepository

pytestmark = pytest.mark.django_db

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
#: Put together here, so that this file holds none.
TOKEN = "ghp_" + "a1B2c3D4e5" * 4

MIXED: Files = {
    "README.md": "# Harbour\n\nThe pilot meets the ship.\n",
    "docs/guide.md": "# Guide\n\nMoor first.\n",
    "docs/blank.md": "\n \n",
    "docs/pointer.md": LFS,
    "docs/image.md": bytes(range(256)),
    "docs/latin.md": "caf\xe9".encode("latin-1"),
    "docs/leak.md": f"token {TOKEN}\n",
    "docs/.env": "SECRET=1\n",
    "docs/draft/later.md": "# Later\n",
    "docs/adr/0001.md": "# One\n\nWe keep cents.\n",
    "docs/picture.svg": "<svg/>\n",
    ".ragignore": "docs/draft/\n",
    ".env": "SECRET=1\n",
    "deploy/server.pem": "nothing\n",
    "src/money.py": "def cents(amount):\n    return round(amount * 100)\n",
    "src/schema.min.js": "var a=1;" * 1000,
    "LICENSE": "free\n",
}


def file_scope(found: dict[str, Any], scope: str) -> tuple[int, int, int, int, int]:
    """``(total, indexed, missing, stale, orphaned)``."""
    counts = found["scopes"][scope]
    return counts["total"], counts["indexed"], counts["missing"], counts["stale"], counts["orphaned"]


def assert_sums(found: dict[str, Any], project: Project, git: Git) -> None:
    """Every tracked file of a scope is counted once, as eligible or as skipped."""
    tracked = git(Path(project.repository), "ls-tree", "-r", "-z", "--name-only", "HEAD").rstrip("\0").split("\0")
    for scope in ("docs", "adr", "code"):
        counts = found["scopes"][scope]
        belonging = [path for path in tracked if scope_of(path) == scope]
        assert counts["total"] + sum(counts["skipped"].values()) == len(belonging), scope
        assert counts["total"] == counts["indexed"] + counts["missing"]
        assert 0 <= counts["stale"] <= counts["indexed"]


def add_session(project: Project, key: str, *messages: str, title: str = "") -> Session:
    """A session of the log with these human messages."""
    session = Session.objects.create(project=project, key=key, title=title)
    for message in messages:
        add_message(session, message)
    return session


def add_message(session: Session, content: str) -> None:
    """One more human message."""
    session.event_count += 1
    session.message_count += 1
    SessionEvent.objects.create(
        project=session.project,
        session=session,
        key=f"e{session.event_count}",
        sequence=session.event_count,
        type="chat.message",
        content=content,
        content_hash=hashlib.sha256(content.encode()).hexdigest(),
    )
    session.save()


# ---- files ----------------------------------------------------------------------------------------------------------


def test_before_the_first_run_everything_eligible_is_missing(project: MakeProject, git: Git) -> None:
    demo = project(MIXED)
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (3, 0, 3, 0, 0)
    assert file_scope(found, "adr") == (1, 0, 1, 0, 0)
    assert file_scope(found, "code")[:3] == (1, 0, 1)
    assert (found["indexedCommit"], found["lastRun"]) == (None, None)
    assert found["headCommit"] == git(Path(demo.repository), "rev-parse", "HEAD")
    assert_sums(found, demo, git)


def test_a_run_covers_every_eligible_file_and_the_reasons_stay(project: MakeProject, git: Git) -> None:
    demo = project(MIXED)
    before = coverage(project=demo)
    run = reindex(project=demo)
    found = coverage(project=demo)
    # A blank file has no chunk and is indexed all the same; what is skipped does not keep the scope from being whole.
    assert file_scope(found, "docs") == (3, 3, 0, 0, 0)
    assert file_scope(found, "adr") == (1, 1, 0, 0, 0)
    assert file_scope(found, "code") == (1, 1, 0, 0, 0)
    for scope in ("docs", "adr", "code"):
        assert found["scopes"][scope]["skipped"] == before["scopes"][scope]["skipped"]
        assert found["scopes"][scope]["commit"] == run.commit
    assert found["headCommit"] == found["indexedCommit"] == run.commit
    assert_sums(found, demo, git)


def test_each_refusal_is_counted_with_its_reason(project: MakeProject) -> None:
    found = coverage(project=project(MIXED))
    assert found["scopes"]["docs"]["skipped"] == {
        "Git LFS pointer": 1,
        "access token (GitHub)": 1,
        "binary": 1,
        "listed in .ragignore": 1,
        "not UTF-8": 1,
    }
    assert sum(found["scopes"]["code"]["skipped"].values()) == 1
    # Outside every scope: two environment files and a key.
    assert found["refused"] == {
        "refused name: environment file": 2,
        "refused name: private key or key store": 1,
    }


def test_the_coverage_counts_what_the_run_reported(project: MakeProject) -> None:
    demo = project(MIXED)
    report = reindex(project=demo).report
    found = coverage(project=demo)
    for scope in ("docs", "adr", "code"):
        assert found["scopes"][scope]["indexed"] == report["scopes"][scope]["files"]
    skipped = sum(sum(found["scopes"][scope]["skipped"].values()) for scope in ("docs", "adr", "code"))
    assert skipped + sum(found["refused"].values()) == len(report["skippedFiles"])


def test_changed_new_deleted_and_renamed_files_are_told_apart(
    project: MakeProject, make_repository: MakeRepository, git: Git
) -> None:
    demo = project({"docs/a.md": "# A\n", "docs/b.md": "# B\n", "docs/c.md": "# C\n"})
    reindex(project=demo)
    make_repository(
        {
            "docs/a.md": "# A, changed\n",
            "docs/b.md": None,
            "docs/c.md": None,
            "docs/d.md": "# C\n",
            "docs/e.md": "# E\n",
        }
    )
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (3, 1, 2, 1, 2)
    assert found["headCommit"] != found["indexedCommit"]
    assert_sums(found, demo, git)
    reindex(project=demo)
    assert file_scope(coverage(project=demo), "docs") == (3, 3, 0, 0, 0)


def test_an_indexed_file_that_may_not_be_indexed_any_more_is_orphaned(
    project: MakeProject, make_repository: MakeRepository, git: Git
) -> None:
    demo = project({"docs/a.md": "# A\n", "docs/b.md": "# B\n", "docs/c.md": "# C\n"})
    reindex(project=demo)
    make_repository({"docs/a.md": bytes(range(256)), ".ragignore": "docs/b.md\n"})
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (1, 1, 0, 0, 2)
    assert found["scopes"]["docs"]["skipped"] == {"binary": 1, "listed in .ragignore": 1}
    assert_sums(found, demo, git)


def test_a_skipped_file_that_was_mended_is_missing(project: MakeProject, make_repository: MakeRepository) -> None:
    demo = project({"docs/a.md": bytes(range(256))})
    reindex(project=demo)
    make_repository({"docs/a.md": "# A\n"})
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (1, 0, 1, 0, 0)
    assert found["scopes"]["docs"]["skipped"] == {}


def test_a_verdict_under_other_rules_is_taken_again(project: MakeProject, settings: Any) -> None:
    settings.RAG_MAX_FILE_BYTES = 10
    demo = project({"docs/a.md": "# Longer than ten bytes\n"})
    reindex(project=demo)
    assert coverage(project=demo)["scopes"]["docs"]["skipped"] == {"larger than 10 bytes": 1}
    settings.RAG_MAX_FILE_BYTES = 1000
    assert file_scope(coverage(project=demo), "docs") == (1, 0, 1, 0, 0)


def test_a_run_of_one_scope_makes_no_other_scope_look_fresh(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    demo = project({"docs/a.md": "# A\n", "src/a.py": "def a():\n    return 1\n"})
    first = reindex(project=demo)
    make_repository({"docs/a.md": "# A, changed\n", "src/a.py": "def a():\n    return 2\n"})
    second = reindex(project=demo, scopes=["docs"])
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (1, 1, 0, 0, 0)
    assert file_scope(found, "code") == (1, 1, 0, 1, 0)
    assert found["indexedCommit"] == first.commit
    assert found["scopes"]["docs"]["commit"] == found["headCommit"] == second.commit


def test_uncommitted_edits_are_no_part_of_it(project: MakeProject) -> None:
    demo = project({"docs/a.md": "# A\n"})
    reindex(project=demo)
    (Path(demo.repository) / "docs/a.md").write_text("# Edited\n")
    assert file_scope(coverage(project=demo), "docs") == (1, 1, 0, 0, 0)


def test_odd_file_names_are_counted_like_any_other(project: MakeProject, git: Git) -> None:
    demo = project(
        {"docs/š.md": "# A\n", 'docs/a"b\n.md': "# B\n", "docs/README.md": "# C\n", "docs/readme.md": "# D\n"}
    )
    reindex(project=demo)
    found = coverage(project=demo)
    assert file_scope(found, "docs") == (4, 4, 0, 0, 0)
    assert_sums(found, demo, git)


def test_the_projects_own_folders_decide_the_scope(project: MakeProject) -> None:
    demo = project(
        {"handbook/a.md": "# A\n", "decisions/1.md": "# 1\n", "docs/b.md": "# B\n"},
        docs_path="handbook",
        adr_path="decisions",
    )
    found = coverage(project=demo)
    assert (file_scope(found, "docs")[0], file_scope(found, "adr")[0]) == (1, 1)


def test_an_empty_repository_has_nothing_to_cover(tmp_path: Path, git: Git, project: MakeProject) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "--quiet")
    found = coverage(project=project(None))
    assert file_scope(found, "docs") == (0, 0, 0, 0, 0)
    assert found["headCommit"] is None


def test_a_repository_out_of_reach_is_said_and_not_guessed(project: MakeProject, tmp_path: Path) -> None:
    demo = project({"docs/a.md": "# A\n"})
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceUnavailable):
        coverage(project=demo)


# ---- sessions, vectors, runs ----------------------------------------------------------------------------------------


def test_sessions_with_messages_are_counted_against_those_indexed(project: MakeProject) -> None:
    demo = project({})
    add_session(demo, "silent")
    add_session(demo, "told", "We moor first.")
    assert coverage(project=demo)["scopes"]["session"] == {
        "total": 1,
        "indexed": 0,
        "missing": 1,
        "stale": 0,
        "withoutMessages": 1,
    }
    reindex(project=demo)
    found = coverage(project=demo)["scopes"]["session"]
    assert (found["total"], found["indexed"], found["stale"]) == (1, 1, 0)


def test_a_session_that_grew_or_got_another_title_is_stale(project: MakeProject) -> None:
    demo = project({})
    for key in ("grows", "renamed", "stays"):
        add_session(demo, key, "We moor first.", title="Mooring")
    reindex(project=demo)
    add_message(Session.objects.get(key="grows"), "And then?")
    Session.objects.filter(key="renamed").update(title="Mooring a tug")
    assert coverage(project=demo)["scopes"]["session"]["stale"] == 2
    reindex(project=demo)
    assert coverage(project=demo)["scopes"]["session"]["stale"] == 0


def test_vectors_count_by_their_model(project: MakeProject) -> None:
    demo = project({f"docs/{name}.md": f"# {name}\n\nText of {name}.\n" for name in "abcd"})
    model = reindex(project=demo).report["embedding"]["model"]
    chunks = list(Chunk.objects.filter(project=demo).order_by("id"))
    for chunk, name in zip(chunks, (model, "other/model", "", ""), strict=True):
        Chunk.objects.filter(pk=chunk.pk).update(embedding=[1.0] * 768 if name else None, embedding_model=name)
    EmbeddingFailure.objects.create(
        project=demo, model=model, text_hash=chunks[2].embedding_hash, reason="the provider said no"
    )
    assert coverage(project=demo)["embedding"] == {
        "total": 4,
        "embedded": 1,
        "model": model,
        "otherModels": {"other/model": 1},
        "failed": 1,
    }


def test_without_a_usable_model_nothing_counts_as_embedded(project: MakeProject, settings: Any) -> None:
    demo = project({"docs/a.md": "# A\n"})
    reindex(project=demo)
    Chunk.objects.update(embedding=[1.0] * 768, embedding_model="ollama/old")
    settings.RAG_EMBEDDING_PROVIDER = "openai"
    assert coverage(project=demo)["embedding"] == {
        "total": 1,
        "embedded": 0,
        "model": None,
        "otherModels": {"ollama/old": 1},
        "failed": 0,
    }


def test_the_last_run_is_the_last_that_has_ended(project: MakeProject) -> None:
    demo = project({"docs/a.md": "# A\n"})
    reindex(project=demo)
    failed = IndexRun.objects.create(
        project=demo, state=RunState.FAILED, error="The repository is out of reach.", finished_at=timezone.now()
    )
    IndexRun.objects.create(project=demo, state=RunState.RUNNING, started_at=timezone.now())
    last = coverage(project=demo)["lastRun"]
    assert (last["id"], last["state"], last["error"]) == (str(failed.pk), "failed", "The repository is out of reach.")
    assert last["finishedAt"] == failed.finished_at.isoformat()


def test_another_projects_files_sessions_and_runs_are_not_counted(project: MakeProject) -> None:
    other = project({"docs/a.md": "# A\n"}, slug="other", name="other")
    add_session(other, "told", "We moor first.")
    reindex(project=other)
    found = coverage(project=project({"README.md": "# R\n"}))
    assert file_scope(found, "docs") == (1, 0, 1, 0, 0)
    assert found["scopes"]["session"]["total"] == found["embedding"]["total"] == 0
    assert found["lastRun"] is None
