"""The pages that citations lead to: one chunk verified, one session read."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest
from django.test import Client

from rag.eventlog import append
from rag.indexing import reindex
from rag.models import Chunk, Project
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.visitors import visitors

FILES = {"docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n"}


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    made = project(FILES)
    reindex(project=made)
    return made


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.content.decode())).split())


def chunk_page(project: Project) -> str:
    return f"/projects/demo/chunks/{Chunk.objects.get(project=project).pk}/"


def test_a_citation_that_stands_is_verified_and_current(indexed: Project) -> None:
    text = text_of(visitors(indexed).viewer, chunk_page(indexed))
    assert "Verified" in text and "Current" in text
    assert "Ships moor at the northern quay." in text


def test_a_moved_passage_is_shown_with_its_new_lines(indexed: Project, make_repository: MakeRepository) -> None:
    make_repository({"docs/harbour.md": "Preface.\n\n" + FILES["docs/harbour.md"]})
    text = text_of(visitors(indexed).viewer, chunk_page(indexed))
    assert "Verified" in text and "Moved" in text and "docs/harbour.md:3-5" in text


def test_a_changed_passage_is_called_changed(indexed: Project, make_repository: MakeRepository) -> None:
    make_repository({"docs/harbour.md": "# Harbour\n\nNo ship moors here any more.\n"})
    assert "Changed" in text_of(visitors(indexed).viewer, chunk_page(indexed))


def test_a_removed_passage_can_still_be_verified(indexed: Project, make_repository: MakeRepository) -> None:
    path = chunk_page(indexed)
    make_repository({"docs/harbour.md": None})
    reindex(project=indexed)
    text = text_of(visitors(indexed).viewer, path)
    assert "Verified" in text and "Gone" in text and "removed this passage from the index" in text


def test_a_citation_that_cannot_be_checked_says_why(indexed: Project) -> None:
    Project.objects.filter(pk=indexed.pk).update(repository="/nowhere")
    text = text_of(visitors(indexed).viewer, chunk_page(indexed))
    assert "Not verified" in text and "Not known" in text


def talk(project: Project, key: str = "s1", messages: int = 3) -> None:
    events = [
        {"id": f"e{number}", "type": "chat.message", "author": "Ines", "content": f"Message {number} about the crane."}
        for number in range(1, messages + 1)
    ]
    append(project=project, session_key=key, title="The <crane>", events=events)


def test_a_session_hit_leads_to_its_message(project: MakeProject) -> None:
    made = project(FILES)
    talk(made)
    reindex(project=made)
    viewer = visitors(made).viewer
    found = viewer.get("/projects/demo/?q=message+2+crane").content.decode()
    link = re.search(r'href="(/projects/demo/sessions/[^"]*event=e2#event)"', found)
    assert link is not None
    page = viewer.get(unescape(link[1]).partition("#")[0]).content.decode()
    assert "The &lt;crane&gt;" in page and "<crane>" not in page
    cited = re.search(r'<li class="message cited" id="event".*?</li>', page, re.DOTALL)
    assert cited is not None and "Message 2 about the crane." in cited[0]


@pytest.mark.parametrize("key", ["a/b", "with space", "100%", "a?b#c", "ключ", "a//b", "slash/", "semi;colon"])
def test_a_session_is_found_whatever_its_id(project: MakeProject, key: str) -> None:
    made = project(FILES)
    talk(made, key)
    reindex(project=made)
    viewer = visitors(made).viewer
    found = viewer.get("/projects/demo/?q=message+2+crane").content.decode()
    link = re.search(r'href="(/projects/demo/sessions/[^"]*)#event"', found)
    assert link is not None
    assert viewer.get(unescape(link[1])).status_code == 200


def test_a_long_session_is_read_a_page_at_a_time(project: MakeProject) -> None:
    made = project(FILES)
    talk(made, messages=100)
    viewer = visitors(made).viewer
    path, seen = "/projects/demo/sessions/s1/", []
    for _ in range(3):
        page = viewer.get(path).content.decode()
        seen += re.findall(r"Message (\d+) about", page)
        following = re.search(r'href="([^"]*after=\d+)"', page)
        path = unescape(following[1]) if following else ""
    assert path == "" and [int(number) for number in seen] == list(range(1, 101))
    earlier = re.search(r'href="([^"]*before=\d+)"', page)
    assert earlier is not None
    assert re.findall(r"Message (\d+) about", viewer.get(unescape(earlier[1])).content.decode())[0] == "41"
    cited = viewer.get("/projects/demo/sessions/s1/?event=e90").content.decode()
    assert "Message 85 about" in cited and "Message 84 about" not in cited


def test_tool_calls_are_not_shown_and_terminal_codes_are_left_out(project: MakeProject) -> None:
    made = project(FILES)
    events = [
        {"type": "tool.call", "content": "rm -rf"},
        {"type": "agent.response", "author": "Agent", "content": "\x1b[31mred\x1b[0m <b>bold</b>"},
    ]
    append(project=made, session_key="s1", events=events)
    page = visitors(made).viewer.get("/projects/demo/sessions/s1/").content.decode()
    assert "rm -rf" not in page and "red &lt;b&gt;bold&lt;/b&gt;" in page and "\x1b" not in page


def test_a_very_long_message_is_cut_until_it_is_asked_for(project: MakeProject) -> None:
    made = project(FILES)
    append(
        project=made, session_key="s1", events=[{"id": "e1", "type": "chat.message", "content": "word " * 9000 + "end"}]
    )
    viewer = visitors(made).viewer
    page = viewer.get("/projects/demo/sessions/s1/").content.decode()
    assert "more characters" in page and len(page) < 15_000
    assert "word end" in viewer.get("/projects/demo/sessions/s1/?event=e1").content.decode()


def test_sessions_and_events_that_are_not_there_are_not_found(project: MakeProject) -> None:
    made = project(FILES)
    talk(made)
    people = visitors(made)
    assert people.viewer.get("/projects/demo/sessions/nowhere/").status_code == 404
    assert people.viewer.get("/projects/demo/sessions/s1/?event=nowhere").status_code == 404
    assert people.outsider.get("/projects/elsewhere/sessions/s1/").status_code == 404
    assert people.outsider.get("/projects/demo/sessions/s1/").status_code == 404


def test_odd_turning_points_are_no_failure(project: MakeProject) -> None:
    made = project(FILES)
    talk(made)
    viewer = visitors(made).viewer
    for query in ("after=x", "after=-1", "before=%D9%A3", f"after={'9' * 30}", "before=0", "after=999"):
        assert viewer.get(f"/projects/demo/sessions/s1/?{query}").status_code == 200, query


def test_a_null_character_in_a_session_id_is_refused(project: MakeProject) -> None:
    made = project(FILES)
    assert visitors(made).viewer.get(f"/projects/demo/sessions/{quote(chr(0))}/").status_code == 400
