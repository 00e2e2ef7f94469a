"""Citations: read again where they were cited, and looked for where the project is now."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rag.citations import verify
from rag.core.errors import NotFound
from rag.indexing import reindex
from rag.models import Chunk, Project, RetiredChunk, SessionEvent
from tests.conftest import Git, MakeProject, MakeRepository
from tests.services.test_coverage import add_message, add_session

pytestmark = pytest.mark.django_db

PILOT = "The pilot meets the ship.\n"
GUIDE = f"\n\n\n\n\n\n\n# Mooring\n\n{PILOT}\n## Lines\n\nThe bow line first.\n\n{PILOT}"


def chunk_with(text: str) -> Chunk:
    """The first stored chunk with this text."""
    chunk = Chunk.objects.filter(content__contains=text).order_by("start_offset").first()
    assert chunk is not None
    return chunk


def indexed(project: MakeProject, files: dict[str, Any]) -> Project:
    """A project on these files, indexed."""
    demo = project(files)
    reindex(project=demo)
    return demo


def assert_verified(found: dict[str, Any], standing: str | None) -> None:
    """The citation is true, and its text stands so."""
    assert (found["verified"], found["reason"], found["standing"]) == (True, None, standing)


# ---- the cited lines ------------------------------------------------------------------------------------------------


def test_every_chunk_is_verified_and_current_right_after_a_run(project: MakeProject) -> None:
    demo = indexed(
        project,
        {
            "docs/guide.md": GUIDE,
            "docs/bom.md": b"\xef\xbb\xbf# Mark\r\n\r\nCarriage returns, and a n\x00ul.\r\n",
            "docs/long.md": "# Long\n\n" + "Слово за слово. 👩‍👩‍👧 " * 300,
            "src/money.py": "import re\n\n\nclass Money:\n    def cents(self):\n        return 1\n",
        },
    )
    chunks = list(Chunk.objects.filter(project=demo))
    assert len(chunks) >= 8
    for chunk in chunks:
        found = verify(project=demo, chunk_id=chunk.pk)
        assert_verified(found, "current")
        assert (found["content"], found["retired"], found["retiredAt"]) == (chunk.content, False, None)
        assert found["movedTo"] is None and found["standingReason"] is None


def test_the_cited_lines_hold_the_text(project: MakeProject, git: Git) -> None:
    demo = indexed(project, {"docs/guide.md": GUIDE})
    chunk = chunk_with("bow line")
    origin = verify(project=demo, chunk_id=str(chunk.pk))["origin"]
    text = git(Path(demo.repository), "show", f"{origin['commit']}:{origin['sourcePath']}")
    assert chunk.content in "\n".join(text.split("\n")[origin["startLine"] - 1 : origin["endLine"]])
    assert origin["kind"] == "file"
    assert origin["headingPath"] == ["Mooring", "Lines"]
    assert origin["title"] == "Mooring"


def test_the_permalink_comes_from_the_projects_remote(project: MakeProject) -> None:
    demo = indexed(project, {"docs/guide.md": GUIDE})
    chunk = chunk_with("bow line")
    assert verify(project=demo, chunk_id=chunk.pk)["origin"]["url"] is None
    demo.remote_url = "https://github.com/harbour/handbook"
    url = verify(project=demo, chunk_id=chunk.pk)["origin"]["url"]
    assert url.startswith(f"https://github.com/harbour/handbook/blob/{chunk.commit}/docs/guide.md")


# ---- where the project is now ---------------------------------------------------------------------------------------


def test_an_edit_above_moves_the_text(project: MakeProject, make_repository: MakeRepository) -> None:
    demo = indexed(project, {"docs/guide.md": GUIDE})
    chunk = chunk_with("bow line")
    make_repository({"docs/guide.md": "New first line.\n\n" + GUIDE})
    found = verify(project=demo, chunk_id=chunk.pk)
    assert_verified(found, "moved")
    moved = found["movedTo"]
    assert (moved["startLine"], moved["endLine"]) == (chunk.start_line + 2, chunk.end_line + 2)
    assert found["headCommit"] != found["origin"]["commit"]


def test_an_edit_below_leaves_it_current(project: MakeProject, make_repository: MakeRepository) -> None:
    demo = indexed(project, {"docs/guide.md": GUIDE})
    chunk = chunk_with("The pilot")
    make_repository({"docs/guide.md": GUIDE + "\nOne more.\n"})
    assert_verified(verify(project=demo, chunk_id=chunk.pk), "current")


def test_an_edited_text_is_changed_and_a_deleted_file_gone(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n", "docs/b.md": "# B\n\nThe second.\n"})
    first, second = chunk_with("The first."), chunk_with("The second.")
    make_repository({"docs/a.md": "# A\n\nThe FIRST.\n", "docs/b.md": None})
    assert_verified(verify(project=demo, chunk_id=first.pk), "changed")
    assert_verified(verify(project=demo, chunk_id=second.pk), "gone")


def test_a_file_that_became_binary_or_a_link_holds_the_text_no_more(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n", "docs/b.md": "# B\n\nThe second.\n"})
    first, second = chunk_with("The first."), chunk_with("The second.")
    (Path(demo.repository) / "docs/b.md").unlink()
    (Path(demo.repository) / "docs/b.md").symlink_to("a.md")
    make_repository({"docs/a.md": bytes(range(256))})
    assert_verified(verify(project=demo, chunk_id=first.pk), "changed")
    assert_verified(verify(project=demo, chunk_id=second.pk), "gone")


def test_what_is_not_committed_does_not_count(project: MakeProject) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    (Path(demo.repository) / "docs/a.md").write_text("# Something else\n")
    assert_verified(verify(project=demo, chunk_id=chunk.pk), "current")


# ---- citations of chunks that a reindex has removed -----------------------------------------------------------------


def test_a_citation_of_a_removed_chunk_still_verifies(project: MakeProject, make_repository: MakeRepository) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    make_repository({"docs/a.md": "# A\n\nThe second.\n"})
    reindex(project=demo)
    found = verify(project=demo, chunk_id=chunk.pk)
    assert_verified(found, "changed")
    assert found["retired"] is True
    assert found["retiredAt"] == RetiredChunk.objects.get().retired_at.isoformat()
    # Its text is not kept; it is what the cited lines say, and its hash proves it.
    assert found["content"] == chunk.content
    assert found["origin"]["startLine"] == chunk.start_line


def test_a_removed_chunk_of_a_renamed_file_is_gone(project: MakeProject, make_repository: MakeRepository) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    make_repository({"docs/a.md": None, "docs/b.md": "# A\n\nThe first.\n"})
    reindex(project=demo)
    assert_verified(verify(project=demo, chunk_id=chunk.pk), "gone")


# ---- what cannot be verified ----------------------------------------------------------------------------------------


def test_a_forged_citation_is_not_verified(project: MakeProject) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    Chunk.objects.filter(pk=chunk.pk).update(start_offset=0, end_offset=3)
    found = verify(project=demo, chunk_id=chunk.pk)
    assert found["verified"] is False
    assert "another text" in found["reason"]


def test_rewritten_history_is_said_and_the_text_is_still_looked_for(
    project: MakeProject, make_repository: MakeRepository, git: Git
) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    shutil.rmtree(demo.repository)
    make_repository({"README.md": "# Another history\n", "docs/a.md": "New.\n\n# A\n\nThe first.\n"})
    found = verify(project=demo, chunk_id=chunk.pk)
    assert (found["verified"], found["standing"]) == (False, "moved")
    assert "its history may have been rewritten" in found["reason"]
    assert found["content"] == chunk.content


def test_a_removed_chunk_of_a_lost_commit_has_no_text_any_more(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    make_repository({"docs/a.md": "# A\n\nThe second.\n"})
    reindex(project=demo)
    shutil.rmtree(demo.repository)
    make_repository({"docs/a.md": "# A\n\nThe third.\n", "README.md": "# Another history\n"})
    found = verify(project=demo, chunk_id=chunk.pk)
    assert (found["verified"], found["content"], found["standing"]) == (False, None, None)
    assert found["standingReason"] == found["reason"]


def test_a_repository_out_of_reach_leaves_the_standing_open(project: MakeProject, tmp_path: Path) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    chunk = chunk_with("The first.")
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    found = verify(project=demo, chunk_id=chunk.pk)
    assert (found["verified"], found["standing"], found["headCommit"]) == (False, None, None)
    assert "There is no directory" in found["reason"]
    assert found["content"] == chunk.content


def test_a_ref_that_is_gone_leaves_only_the_standing_open(project: MakeProject, git: Git, tmp_path: Path) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    demo.ref = "release"
    found = verify(project=demo, chunk_id=chunk_with("The first.").pk)
    assert_verified(found, None)
    assert "no branch, tag or commit 'release'" in found["standingReason"]


@pytest.mark.parametrize("chunk_id", ["", "nonsense", "6f1c1f0e-3b52-4c11-9f0e-2f6f3b8f0a11", "\0", "0" * 5000])
def test_an_unknown_id_is_not_found(project: MakeProject, chunk_id: str) -> None:
    with pytest.raises(NotFound):
        verify(project=project({}), chunk_id=chunk_id)


def test_another_projects_chunk_is_not_found_removed_or_not(
    project: MakeProject, make_repository: MakeRepository
) -> None:
    demo = indexed(project, {"docs/a.md": "# A\n\nThe first.\n"})
    other = project({"README.md": "# R\n"}, slug="other", name="other")
    chunk = chunk_with("The first.")
    with pytest.raises(NotFound):
        verify(project=other, chunk_id=chunk.pk)
    make_repository({"docs/a.md": None})
    reindex(project=demo)
    assert verify(project=demo, chunk_id=chunk.pk)["retired"]
    with pytest.raises(NotFound):
        verify(project=other, chunk_id=chunk.pk)


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_a_session_citation_names_its_event_and_is_current_in_the_log(project: MakeProject) -> None:
    demo = project({})
    session = add_session(demo, "s/1", "\x1b[31mWe moor first.\x1b[0m " + "Then we unload. " * 200, title="Mooring")
    add_message(session, "And then?")
    reindex(project=demo)
    chunks = list(Chunk.objects.filter(project=demo))
    assert len(chunks) >= 4
    for chunk in chunks:
        found = verify(project=demo, chunk_id=chunk.pk)
        assert_verified(found, "current")
        assert found["scope"] == "session"
        assert found["origin"] == {
            "kind": "session",
            "sessionId": "s/1",
            "eventId": chunk.metadata["sourceRef"],
            "title": "Mooring",
        }


def test_a_removed_session_chunk_is_verified_against_the_log(project: MakeProject, settings: Any) -> None:
    demo = project({})
    add_session(demo, "s/1", "Then we unload. " * 200)
    reindex(project=demo)
    chunk = chunk_with("unload")
    settings.CHUNK_TARGET_CHARS = 800
    reindex(project=demo)
    assert not Chunk.objects.filter(pk=chunk.pk).exists()
    found = verify(project=demo, chunk_id=chunk.pk)
    assert_verified(found, "current")
    assert (found["content"], found["retired"]) == (chunk.content, True)
    assert found["origin"] == {"kind": "session", "sessionId": "s/1", "eventId": "e1"}


def test_a_citation_of_an_event_that_was_altered_or_deleted_is_not_verified(
    project: MakeProject, settings: Any
) -> None:
    demo = project({})
    add_session(demo, "s/1", "Then we unload. " * 200)
    reindex(project=demo)
    chunk = chunk_with("unload")
    SessionEvent.objects.update(content="Then we load. " * 200)
    found = verify(project=demo, chunk_id=chunk.pk)
    assert (found["verified"], found["standing"]) == (False, "changed")
    settings.CHUNK_TARGET_CHARS = 800
    reindex(project=demo, from_scratch=True)
    SessionEvent.objects.all().delete()
    found = verify(project=demo, chunk_id=chunk.pk)
    assert (found["verified"], found["standing"], found["retired"]) == (False, "gone", True)
    assert "does not hold the cited event" in found["reason"]
