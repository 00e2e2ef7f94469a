"""The other tables in the admin: runs with their reports, sessions and events, files, usage; all to look at only."""

from __future__ import annotations

import re
from datetime import date
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag.eventlog import append
from rag.indexing import reindex
from rag.models import (
    EmbeddingFailure,
    EmbeddingUsage,
    IndexRun,
    Project,
    RetiredChunk,
    RunState,
    Session,
    SessionEvent,
    SourceFile,
)
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.visitors import staff_with, visitors

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n",
    "docs/latin<b>.md": b"caf\xe9",
    "src/moor.py": "def moor(ship):\n    return ship\n",
}
MODELS = ["indexrun", "session", "sessionevent", "sourcefile", "retiredchunk", "embeddingusage", "embeddingfailure"]


@pytest.fixture
def filled(project: MakeProject, make_repository: MakeRepository) -> Project:
    """A project with a row in every table."""
    made = project({**FILES, "docs/old.md": "# Old\n\nGone soon.\n"})
    events = [{"id": "e1", "type": "chat.message", "author": "<b>Ines</b>", "content": "<img src=x onerror=alert(1)>"}]
    append(project=made, session_key="s1", title="<i>Crane</i>", events=events)
    reindex(project=made)
    make_repository({"docs/old.md": None})
    reindex(project=made)
    EmbeddingUsage.objects.create(project=made, day=date(2024, 5, 1), kind="run", provider="ollama", model="m", texts=3)
    EmbeddingFailure.objects.create(project=made, model="m", text_hash="0" * 64, reason="The server failed.")
    return made


def newest(model: str) -> object:
    tables = {
        "indexrun": IndexRun,
        "session": Session,
        "sessionevent": SessionEvent,
        "sourcefile": SourceFile,
        "retiredchunk": RetiredChunk,
        "embeddingusage": EmbeddingUsage,
        "embeddingfailure": EmbeddingFailure,
    }
    row = tables[model].objects.first()  # type: ignore[attr-defined]
    assert row is not None
    return row.pk


def words(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    # Where a path may be broken, nothing is read.
    page = re.sub(r'<wbr>(?:<span class="lines">)?', "", answer.content.decode())
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_every_table_is_to_look_at_only(filled: Project, admin_client: Client) -> None:
    for model in MODELS:
        place = f"/admin/rag/{model}/"
        page = f"{place}{newest(model)}/change/"
        listed, shown = admin_client.get(place), admin_client.get(page)
        assert listed.status_code == shown.status_code == 200
        for answer in (listed, shown):
            text = answer.content.decode()
            assert "<img src=x" not in text and "<b>Ines" not in text and "<i>Crane" not in text
            assert "latin<b>" not in text
            assert "script-src 'self'" in answer["Content-Security-Policy"]
        assert admin_client.get(f"{place}add/").status_code == 403
        assert admin_client.post(page, {"title": "forged"}).status_code == 403
        assert admin_client.post(f"{place}{newest(model)}/delete/", {"post": "yes"}).status_code == 403


def test_every_table_is_for_staff_with_its_permission(filled: Project) -> None:
    people = visitors(filled)
    for model in MODELS:
        place = f"/admin/rag/{model}/"
        for client in (people.maintainer, people.viewer, people.outsider, people.anonymous):
            assert client.get(place).status_code == 302
        assert people.staff.get(place).status_code == 403
        assert staff_with(f"view_{model}").get(place).status_code == 200


def test_no_list_counts_without_a_bound(filled: Project, admin_client: Client) -> None:
    for model in MODELS:
        with CaptureQueriesContext(connection) as ran:
            admin_client.get(f"/admin/rag/{model}/")
        counts = [query["sql"] for query in ran if "COUNT(" in query["sql"].upper()]
        assert all("LIMIT" in sql for sql in counts), model
        assert len(ran) <= 9, model


ODD = ["?q=%00", "?project__id__exact=%00", "?project__id__exact=" + "9" * 30, "?p=99999", "?session=x", "_00/change/"]


def test_no_address_makes_a_list_or_a_page_fail(filled: Project, admin_client: Client) -> None:
    for model in MODELS:
        for odd in ODD:
            assert admin_client.get(f"/admin/rag/{model}/{odd}").status_code in (200, 302, 400), (model, odd)


@pytest.mark.parametrize("query", ["chunk/?embedded=zz", "sourcefile/?state=zz", "chunk/?q=quay&embedded="])
def test_an_unknown_value_of_a_filter_is_refused_and_told(filled: Project, admin_client: Client, query: str) -> None:
    place = f"/admin/rag/{query}"
    answer = admin_client.get(place)
    assert (answer.status_code, answer["Location"]) == (302, f"{place.partition('?')[0]}?e=1")
    assert "has no such value. The list is shown without a filter." in words(admin_client, answer["Location"])


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_report_as_tables_and_as_json(filled: Project, admin_client: Client) -> None:
    run = IndexRun.objects.order_by("created_at")[0]
    path = f"/admin/rag/indexrun/{run.pk}/change/"
    text = words(admin_client, path)
    assert "Docs 2 2 0 0" in text and "Sessions 1 1 0 0" in text
    assert "The provider was not available." in text and "Without a vector 4" in text
    assert "docs/latin<b>.md not UTF-8" in text
    assert "python 1 1" in text
    assert '"skippedFiles": [' in text


def test_a_run_without_a_report_shows_why_it_ended(filled: Project, admin_client: Client) -> None:
    run = IndexRun.objects.create(project=filled, state=RunState.FAILED, error="The repository is out of reach.")
    text = words(admin_client, f"/admin/rag/indexrun/{run.pk}/change/")
    assert "The repository is out of reach." in text and "No report" in text


def test_a_run_whose_process_died_is_called_interrupted(filled: Project, admin_client: Client) -> None:
    run = IndexRun.objects.create(project=filled, state=RunState.RUNNING, phase="embedding", done=3, total=9)
    text = words(admin_client, f"/admin/rag/indexrun/{run.pk}/change/")
    assert "State: Interrupted" in text and "embedding 3/9" in text


def test_a_report_with_parts_missing_is_no_failure(filled: Project, admin_client: Client) -> None:
    run = IndexRun.objects.create(project=filled, state=RunState.SUCCEEDED, report={"scopes": {"docs": {"files": 1}}})
    assert "Docs 1" in words(admin_client, f"/admin/rag/indexrun/{run.pk}/change/")


def test_a_report_of_very_many_skipped_files_is_cut(filled: Project, admin_client: Client) -> None:
    skipped = [{"path": f"docs/{number}.md", "reason": "binary"} for number in range(5000)]
    run = IndexRun.objects.create(project=filled, state=RunState.SUCCEEDED, report={"skippedFiles": skipped})
    answer = admin_client.get(f"/admin/rag/indexrun/{run.pk}/change/")
    assert "Skipped files: 5000" in answer.content.decode() and "and 4500 more" in answer.content.decode()
    assert len(answer.content) < 300_000


# ---- sessions and events --------------------------------------------------------------------------------------------


@pytest.fixture
def long_session(project: MakeProject) -> Session:
    made = project(FILES)
    events = [{"id": f"e{number}", "type": "tool.call", "content": "x"} for number in range(1, 261)]
    append(project=made, session_key="long", events=events)
    append(project=made, session_key="short", events=events[:1])
    return Session.objects.get(key="long")


def shown_events(client: Client, query: str) -> list[str]:
    answer = client.get(f"/admin/rag/sessionevent/{query}")
    assert answer.status_code == 200
    return re.findall(r'class="field-shown"[^>]*>.*?<bdi>(\d+)\. ', answer.content.decode())


def test_events_of_a_session_are_paged_by_sequence_without_count_or_offset(
    long_session: Session, admin_client: Client
) -> None:
    for number, expected in ((1, range(1, 51)), (6, range(251, 261))):
        with CaptureQueriesContext(connection) as ran:
            found = shown_events(admin_client, f"?session={long_session.pk}&p={number}")
        assert found == [str(sequence) for sequence in expected]
        assert not any("COUNT(" in query["sql"].upper() or "OFFSET" in query["sql"] for query in ran)
    assert "260 session events" in words(admin_client, f"/admin/rag/sessionevent/?session={long_session.pk}")


def test_without_a_session_the_newest_events_are_listed(long_session: Session, admin_client: Client) -> None:
    assert shown_events(admin_client, "")[:2] == ["1", "260"]


def test_a_session_that_is_not_there_has_no_events(long_session: Session, admin_client: Client) -> None:
    for session in ("0", "x", "9" * 30, "-1", "%D9%A3"):
        assert shown_events(admin_client, f"?session={session}") == [], session


def test_a_list_of_events_loads_no_contents(long_session: Session, admin_client: Client) -> None:
    with CaptureQueriesContext(connection) as ran:
        shown_events(admin_client, f"?session={long_session.pk}")
    assert not any('"rag_sessionevent"."content"' in query["sql"] for query in ran)


def test_a_huge_payload_is_cut(project: MakeProject, admin_client: Client) -> None:
    made = project(FILES)
    events = [{"id": "e1", "type": "tool.result", "payload": {"output": "y" * 1_000_000}}]
    append(project=made, session_key="s", events=events)
    answer = admin_client.get(f"/admin/rag/sessionevent/{SessionEvent.objects.get().pk}/change/")
    assert answer.status_code == 200 and len(answer.content) < 100_000
    assert "more characters" in answer.content.decode()


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_are_told_apart_by_what_became_of_them(filled: Project, admin_client: Client) -> None:
    skipped = words(admin_client, "/admin/rag/sourcefile/?state=skipped")
    assert "docs/latin<b>.md" in skipped and "not UTF-8" in skipped and "docs/harbour.md" not in skipped
    assert "docs/harbour.md" in words(admin_client, "/admin/rag/sourcefile/?state=indexed")
    assert "src/moor.py" in words(admin_client, "/admin/rag/sourcefile/?q=moor")
    # A run does not record how large a file is: nothing says 0.
    assert "Size" not in words(admin_client, "/admin/rag/sourcefile/")


def test_a_removed_chunk_is_listed_as_retired(filled: Project, admin_client: Client) -> None:
    assert "docs/old.md:1-3" in words(admin_client, "/admin/rag/retiredchunk/")
