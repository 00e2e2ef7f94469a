"""Chunks in the admin: a list that stays cheap, a search through the index, and text that is shown as text."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from rag.admin import paginator
from rag.core.types import Scope
from rag.indexing import reindex
from rag.models import Chunk, Project
from tests.conftest import MakeProject
from tests.fakes import index_chunks
from tests.interfaces.visitors import staff_with, visitors

LIST = "/admin/rag/chunk/"
FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay after sunset.\n",
    "docs/board.md": "# Board\n\nIt showed <img src=x onerror=alert(1)> once. user\u202eadmin שלום\n",
    "src/moor.py": 'def moor_ship(ship):\n    """Tie a ship."""\n    return ship\n',
}


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    made = project(FILES, language="english")
    reindex(project=made)
    return made


@pytest.fixture
def many(project: MakeProject) -> Project:
    """Enough chunks for several pages."""
    made = project({"README.md": "# A\n"})
    index_chunks(made, {f"docs/{number:03}.md": f"A note about crane {number}." for number in range(150)})
    return made


def places(client: Client, query: str = "") -> list[str]:
    answer = client.get(f"{LIST}{query}")
    assert answer.status_code == 200, query
    return places_in(answer.content.decode())


def places_in(page: str) -> list[str]:
    found = re.findall(r'class="field-place"[^>]*>.*?<bdi>(.*?)</bdi>', page)
    return [unescape(re.sub("<[^>]*>", "", place)) for place in found]


def chunk_of(path: str) -> Chunk:
    return Chunk.objects.get(origin_key=path)


def test_the_list_counts_nothing_without_a_bound_and_loads_no_heavy_column(many: Project, admin_client: Client) -> None:
    admin_client.get(LIST)
    for query in ("", "?p=2", "?q=crane", f"?project__id__exact={many.pk}", "?embedded=no", "?_facets=True", "?all="):
        with CaptureQueriesContext(connection) as ran:
            assert admin_client.get(f"{LIST}{query}").status_code == 200
        counts = [sql["sql"] for sql in ran if "COUNT(" in sql["sql"].upper()]
        assert counts and all(f"LIMIT {paginator.MOST_ROWS + 1}" in sql for sql in counts), query
        rows = [sql["sql"] for sql in ran if sql["sql"].startswith('SELECT "rag_chunk"')]
        assert len(rows) == 1
        selected = rows[0].partition(" FROM ")[0]
        assert not any(f'"{name}"' in selected for name in ("content", "embedding", "search_vector", "terms_d"))


def test_the_list_takes_the_same_number_of_queries_however_many_chunks(many: Project, admin_client: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as ran:
            admin_client.get(f"{LIST}?p=1")
        return len(ran)

    full = queries()
    Chunk.objects.exclude(origin_key__in=["docs/001.md", "docs/002.md"]).delete()
    assert len(places(admin_client)) == 2
    assert queries() == full <= 8


def test_a_big_table_is_paged_as_far_as_the_bound_and_its_size_estimated(
    many: Project, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paginator, "MOST_ROWS", 100)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE rag_chunk")
    text = admin_client.get(LIST).content.decode()
    assert "The first 100 of about 150 chunks" in text
    assert len(places(admin_client, "?p=2")) == 50
    assert admin_client.get(f"{LIST}?p=3")["Location"] == f"{LIST}?e=1"
    assert "The first 100 of many chunks" in admin_client.get(f"{LIST}?q=crane").content.decode()


def test_filters_choose_project_scope_language_and_embedding(
    indexed: Project, admin_client: Client, project: MakeProject
) -> None:
    other = project(
        {"docs/cais.md": "# Cais\n\nOs navios atracam.\n"}, slug="porto", name="porto", language="portuguese"
    )
    reindex(project=other)
    Chunk.objects.filter(origin_key="docs/harbour.md").update(embedding=[1.0] * 768, embedding_model="old-model")
    assert places(admin_client, f"?project__id__exact={other.pk}") == ["docs/cais.md:1-3"]
    assert places(admin_client, "?scope__exact=code") == ["src/moor.py:1-3"]
    assert places(admin_client, "?language__exact=portuguese") == ["docs/cais.md:1-3"]
    assert places(admin_client, "?embedded=yes") == []
    assert places(admin_client, "?embedded=other") == ["docs/harbour.md:1-3"]
    assert len(places(admin_client, "?embedded=no")) == 4
    page = admin_client.get(LIST).content.decode()
    assert "?language__exact=portuguese" in page and "?language__exact=hungarian" not in page


def test_a_vector_of_the_model_in_use_counts_as_embedded(
    indexed: Project, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag.provider import current_model

    Chunk.objects.filter(origin_key="docs/harbour.md").update(embedding=[1.0] * 768, embedding_model=current_model())
    assert places(admin_client, "?embedded=yes") == ["docs/harbour.md:1-3"]
    assert len(places(admin_client, "?embedded=no")) == 2


TERMS = {
    "ship": {"docs/harbour.md:1-3", "src/moor.py:1-3"},
    "ships mooring": {"docs/harbour.md:1-3"},
    "ships sunset": {"docs/harbour.md:1-3"},
    "docs/harbour.md": {"docs/harbour.md:1-3"},
    "moor_ship": {"src/moor.py:1-3"},
    "the": set(),
    "?!": set(),
    "nothing-like-it": set(),
    "a' & b | !c:* \\": set(),
}


def test_the_search_goes_through_the_index(indexed: Project, admin_client: Client) -> None:
    for term, found in TERMS.items():
        with CaptureQueriesContext(connection) as ran:
            answer = admin_client.get(LIST, {"q": term})
        assert answer.status_code == 200
        assert not any(" LIKE " in sql["sql"].upper() for sql in ran)
        assert set(places_in(answer.content.decode())) == found, term


def test_a_chunk_is_found_by_its_id(indexed: Project, admin_client: Client) -> None:
    assert places(admin_client, f"?q={chunk_of('src/moor.py').pk}") == ["src/moor.py:1-3"]


def test_the_page_shows_the_text_escaped_and_the_vector_in_a_word(indexed: Project, admin_client: Client) -> None:
    chunk = chunk_of("docs/board.md")
    Chunk.objects.filter(pk=chunk.pk).update(embedding=[0.5] + [0.0] * 767, embedding_model="old-model")
    with CaptureQueriesContext(connection) as ran:
        answer = admin_client.get(f"{LIST}{chunk.pk}/change/")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert '<pre class="foreign" dir="auto">' in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text and "<img src=x" not in text
    assert "\u202e" not in text and ">RLO</span>" in text and "שלום" in text
    assert "768 dims, norm 0.50, model old-model" in text
    assert "0.0,0.0" not in text and "[0.5" not in text
    assert not any('"rag_chunk"."embedding",' in sql["sql"] for sql in ran)
    assert f"/projects/demo/chunks/{chunk.pk}/" in text and "docs/board.md:1-3" in text
    assert "script-src 'self'" in answer["Content-Security-Policy"]


def test_nothing_can_be_added_changed_or_deleted(indexed: Project, admin_client: Client) -> None:
    chunk = chunk_of("docs/harbour.md")
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert admin_client.post(f"{LIST}{chunk.pk}/delete/", {"post": "yes"}).status_code == 403
    for vector in ("[1,2]", "garbage"):
        answer = admin_client.post(f"{LIST}{chunk.pk}/change/", {"embedding": vector, "content": "forged"})
        assert answer.status_code == 403
    assert chunk_of("docs/harbour.md").content == chunk.content
    page = admin_client.get(f"{LIST}{chunk.pk}/change/").content.decode()
    assert 'name="embedding"' not in page and 'name="_save"' not in page
    assert 'name="action"' not in admin_client.get(LIST).content.decode()


def test_only_staff_with_the_permission_look(indexed: Project) -> None:
    people = visitors(indexed)
    page = f"{LIST}{chunk_of('docs/harbour.md').pk}/change/"
    for client in (people.maintainer, people.viewer, people.outsider, people.anonymous):
        assert client.get(LIST).status_code == client.get(page).status_code == 302
    assert people.staff.get(LIST).status_code == people.staff.get(page).status_code == 403
    looking = staff_with("view_chunk")
    assert looking.get(LIST).status_code == looking.get(page).status_code == 200


ODD = [
    "?q=%00",
    "?q=a%00b",
    "?project__id__exact=%00",
    "?embedded=%00",
    "?scope__exact=%00",
    "?q=%ED%A0%80",
    "?q=%FF",
    "?scope__exact=%FF",
    "?project__id__exact=abc",
    "?project__id__exact=99999999999999999999999999",
    "?project__id__exact=-1",
    "?language__exact=klingon",
    "?embedded=maybe",
    "?p=0",
    "?p=-1",
    "?p=abc",
    "?p=999999999999999999999",
    "?o=1.2.-3.99",
    "?o=x",
    "?all=",
    "?e=1",
    "?_popup=1",
    "?_to_field=content",
    "?q=" + "x" * 5000,
    "?content__contains=a",
    "?embedding__isnull=True",
    "?project__memberships__user__password__startswith=a",
    "?nothing=1",
    "_00/change/",
    "no-uuid/change/",
    "00000000-0000-0000-0000-000000000000/change/",
    "%EF%BF%BD/change/",
    "_ED_A0_80/change/",
]


def test_no_address_makes_the_list_or_the_page_fail(indexed: Project, admin_client: Client) -> None:
    for odd in ODD:
        assert admin_client.get(f"{LIST}{odd}").status_code in (200, 302, 400), odd


def test_only_the_offered_filters_filter(indexed: Project, admin_client: Client) -> None:
    for lookup in ("content__contains=a", "terms_d__startswith=a", "project__memberships__user=1"):
        assert admin_client.get(f"{LIST}?{lookup}").status_code == 400, lookup


def test_a_session_chunk_shows_its_session(project: MakeProject, admin_client: Client) -> None:
    from rag.eventlog import append

    made = project({"README.md": "# A\n"})
    event = {"id": "e/1", "type": "chat.message", "content": "The crane is broken."}
    append(project=made, session_key="s1", events=[event])
    reindex(project=made)
    assert "s1/e/1" in places(admin_client, "?scope__exact=session")
    chunk = Chunk.objects.get(scope=Scope.SESSION)
    page = unescape(admin_client.get(f"{LIST}{chunk.pk}/change/").content.decode())
    assert "/projects/demo/sessions/s1/?event=e%2F1#event" in page
