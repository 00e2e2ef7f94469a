"""The search page: questions, answers, what they lack, and what is wrong with them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from rag.indexing import reindex
from rag.models import Chunk, Membership, Project, ProjectState
from rag.web import views
from tests.conftest import Git, MakeProject
from tests.interfaces.visitors import visitors
from tests.ollama_server import OllamaServer

if TYPE_CHECKING:
    from pytest_django.fixtures import DjangoAssertNumQueries

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay after sunset.\n",
    "docs/guide/lamps.md": "# Lamps\n\nThe lamps of the quay are lit by the warden.\n",
    "docs/adr/0001-quay.md": "# Use the northern quay\n\nThe southern quay is too shallow for ships.\n",
    "src/moor.py": 'def moor_ship(ship):\n    """Tie a ship to the quay."""\n    return ship\n',
}
HOSTILE = "# Board\n\nThe board showed <img src=x onerror=alert(1)> once. <script>alert(2)</script> user\u202eadmin\n"


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    made = project(FILES)
    reindex(project=made)
    return made


def page(client: Client, query: str = "") -> str:
    answer = client.get(f"/projects/demo/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def hits(text: str) -> list[str]:
    return re.findall(r"<article.*?</article>", text, re.DOTALL)


def words(text: str) -> str:
    """A page as it reads."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_a_question_is_answered_with_marked_words_and_a_place(indexed: Project) -> None:
    text = page(visitors(indexed).viewer, "?q=where+do+ships+moor")
    first = hits(text)[0]
    assert "docs/harbour.md:1-3" in words(first) or "docs/harbour.md:3" in words(first)
    assert "<mark>Ships</mark> <mark>moor</mark>" in first
    assert f"/projects/demo/chunks/{Chunk.objects.get(origin_key='docs/harbour.md').pk}/" in first
    assert 'value="where do ships moor"' in text


def test_chips_choose_the_scopes(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    assert "docs/adr/0001-quay.md" in words("".join(hits(page(viewer, "?q=quay"))))
    only = page(viewer, "?q=quay&scope=adr")
    assert len(hits(only)) == 1 and "docs/adr/0001-quay.md" in hits(only)[0]
    assert re.search(r'value="adr" checked', only) and not re.search(r'value="docs" checked', only)
    code = page(viewer, "?q=moor_ship&scope=code")
    assert "moor_ship" in words(hits(code)[0]) and "reciprocal rank fusion" in words(code)


def test_a_folder_narrows_the_search(indexed: Project) -> None:
    found = hits(page(visitors(indexed).viewer, "?q=quay&path=docs/guide/"))
    assert len(found) == 1 and "docs/guide/lamps.md" in found[0]


def test_more_passages_are_one_link_away(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    few = page(viewer, "?q=quay&limit=1")
    assert len(hits(few)) == 1
    assert 'href="?q=quay&amp;limit=20"' in few
    assert "More passages" not in page(viewer, "?q=quay&limit=20")


def test_a_permalink_is_linked_where_the_remote_has_pages(project: MakeProject, git: Git) -> None:
    made = project(FILES)
    git(Path(made.repository), "remote", "add", "origin", "https://github.com/harbour-example/harbour.git")
    reindex(project=made)
    assert (
        'href="https://github.com/harbour-example/harbour/blob/'
        in hits(page(visitors(made).viewer, "?q=ships+moor"))[0]
    )


def test_markup_in_a_passage_is_text_with_marks_around_the_words(project: MakeProject) -> None:
    made = project({"docs/board.md": HOSTILE})
    reindex(project=made)
    viewer = visitors(made).viewer
    text = page(viewer, "?q=img+onerror")
    assert "&lt;<mark>img</mark> src=x <mark>onerror</mark>=alert(1)&gt;" in text
    assert "<img" not in text and "<script" not in text
    assert "\u202e" not in text and ">RLO</span>" in text
    chunk = viewer.get(f"/projects/demo/chunks/{Chunk.objects.get().pk}/").content.decode()
    assert "&lt;img src=x onerror=alert(1)&gt;" in chunk and "<img" not in chunk and "\u202e" not in chunk


def test_markup_in_a_question_is_text(indexed: Project) -> None:
    text = page(visitors(indexed).viewer, "?q=%22%3E%3Cimg+src%3Dx+onerror%3Dalert(1)%3E+quay")
    assert "<img" not in text and "&lt;img src=x" in text


def test_without_vectors_the_page_says_so_and_why(indexed: Project) -> None:
    text = page(visitors(indexed).viewer, "?q=ships")
    assert "Found by words alone." in text
    assert "127.0.0.1:9" in words(text)
    assert "Vector not compared" in words(hits(text)[0])


def test_each_signal_has_its_score_or_says_why_it_has_none(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    reindex(project=made)
    Chunk.objects.filter(origin_key="docs/guide/lamps.md").update(embedding=None, embedding_model="")
    viewer = visitors(made).viewer
    text = page(viewer, "?q=quay")
    assert "Found by words alone" not in text
    by_path = {re.search(r"docs/[\w/.-]+\.md", words(hit))[0]: words(hit) for hit in hits(text)}  # type: ignore[index]
    assert re.search(r"Vector 0\.\d\d Lexical [01]\.\d\d", by_path["docs/harbour.md"])
    assert "Vector no vector" in by_path["docs/guide/lamps.md"]
    others = page(viewer, "?q=warden&scope=code")
    assert "Lexical no word in common" in words(others)


def test_a_question_of_stop_words_says_that_no_word_could_be_looked_up(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    reindex(project=made)
    text = words(page(visitors(made).viewer, "?q=how+to+be"))
    assert "Found by meaning alone." in text


def test_no_good_match_says_what_a_threshold_can_and_cannot_tell(indexed: Project) -> None:
    text = words(page(visitors(indexed).viewer, "?q=zebra"))
    assert "No good match" in text and "scored 0.20 or more" in text
    assert "What it cannot tell you: that the documents have no answer." in text
    assert "not measured on this project" in text


def test_an_empty_index_says_so(project: MakeProject) -> None:
    viewer = visitors(project(FILES)).viewer
    assert "Nothing is indexed yet" in page(viewer)
    assert "Nothing of this project is indexed yet" in page(viewer, "?q=quay")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?q=", "Ask something"),
        ("?q=+++", "Ask something"),
        ("?q=a%00b", "Null characters are not allowed"),
        (f"?q={'x' * 2001}", "Query has 2001 characters, the most is 2000"),
        ("?q=quay&scope=wiki", "wiki is not one of the available choices"),
        ("?q=quay&limit=0", "greater than or equal to 1"),
        ("?q=quay&limit=many", "whole number"),
        ("?q=quay&limit=51", "less than or equal to 50"),
    ],
)
def test_what_is_wrong_is_said_by_the_field(indexed: Project, query: str, message: str) -> None:
    answer = visitors(indexed).viewer.get(f"/projects/demo/{query}")
    assert answer.status_code == 400
    assert message in unescape(answer.content.decode())
    assert 'role="alert"' in answer.content.decode()


def test_a_null_character_in_any_parameter_is_refused(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    for query in ("q=a%00b", "q=%00&path=%00", "q=ok&scope=%00", "q=ok&limit=%00", "q=ok&%00=1", "coverage=%00"):
        assert viewer.get(f"/projects/demo/?{query}").status_code == 400, query


def test_odd_questions_are_answered(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    for query in ("q=%ED%A0%80", "q=%FF", "q=quay&path=%FF", "q=?!", "q=%22", "q=-p", "q=a+%26+|+b"):
        assert viewer.get(f"/projects/demo/?{query}").status_code == 200, query


def test_a_paused_project_is_shown_and_not_searched(indexed: Project) -> None:
    Project.objects.filter(pk=indexed.pk).update(state=ProjectState.PAUSED)
    viewer = visitors(indexed).viewer
    assert "is paused" in page(viewer)
    answer = viewer.get("/projects/demo/?q=quay")
    assert answer.status_code == 409
    assert "only a ready project is searched" in answer.content.decode()


def test_a_search_reads_no_repository(indexed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the page compared the sources without being asked")

    monkeypatch.setattr(views, "coverage_view", refuse)
    text = words(page(visitors(indexed).viewer, "?q=quay"))
    assert "4 passages indexed" in text and "Last run" in text


def test_the_coverage_panel_compares_on_demand(indexed: Project) -> None:
    viewer = visitors(indexed).viewer
    assert 'href="?q=quay&amp;coverage=1#coverage"' in page(viewer, "?q=quay")
    text = page(viewer, "?coverage=1")
    assert '<details class="coverage-panel card" id="coverage" open>' in text
    assert "2 up to date" in words(text) and "without a vector" in words(text)


def test_a_repository_out_of_reach_is_a_sentence(indexed: Project) -> None:
    Project.objects.filter(pk=indexed.pk).update(repository="/nowhere")
    text = words(page(visitors(indexed).viewer, "?coverage=1"))
    assert "The sources cannot be compared now." in text and "Last run" in text


def test_the_list_takes_the_same_number_of_queries_however_many_projects(
    indexed: Project, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    viewer = visitors(indexed).viewer
    member = Membership.objects.get(user__username="vera")
    for number in range(20):
        other = Project.objects.create(slug=f"p{number}", repository="https://forge.invalid/p.git")
        Membership.objects.create(project=other, user=member.user)
    with django_assert_max_num_queries(4):
        text = viewer.get("/").content.decode()
    assert "4 passages" in text and text.count("Nothing indexed yet") == 20
