"""The coverage page of the admin."""

from __future__ import annotations

import re
from html import unescape

from django.test import Client

from rag.indexing import reindex
from rag.models import Chunk, Project
from tests.conftest import MakeProject, MakeRepository
from tests.interfaces.visitors import staff_with, visitors

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay.\n",
    "docs/lamps.md": "# Lamps\n\nThe warden lights them.\n",
    "docs/tides.md": "# Tides\n\nTwice a day.\n",
    "docs/latin.md": b"caf\xe9",
    "docs/adr/0001.md": "# Use the quay\n\nIt is deep.\n",
    ".env": "TOKEN=1",
}


def page(project: Project) -> str:
    return f"/admin/rag/project/{project.pk}/coverage/"


def words(client: Client, project: Project) -> str:
    answer = client.get(page(project))
    assert answer.status_code == 200
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.content.decode())).split())


def test_bars_gaps_and_reasons_are_shown(
    admin_client: Client, project: MakeProject, make_repository: MakeRepository
) -> None:
    made = project(FILES)
    reindex(project=made)
    make_repository(
        {
            "docs/harbour.md": "# Harbour\n\nChanged.\n",
            "docs/lamps.md": None,
            "docs/new.md": "# New\n\nJust written.\n",
            "docs/new-latin.md": b"caf\xe9",
        }
    )
    text = words(admin_client, made)
    assert "Docs 3 files, 2 skipped 1 up to date 1 stale 1 missing 1 orphaned" in text
    assert re.search(r"Docs: missing \( in the repository.*?\) docs/new.md", text.replace("(in", "( in"))
    assert re.search(r"Docs: stale.*?docs/harbour.md", text)
    assert re.search(r"Docs: orphaned.*?docs/lamps.md", text)
    assert re.search(r"Not UTF-8 : 1 docs/latin.md", text)
    assert re.search(r"Refused name: environment file : 1 \.env", text)
    assert "The repository is at" in text and "Last run" in text and "0 embedded" in text
    html = admin_client.get(page(made)).content.decode()
    assert re.search(r'<rect class="stale" x="33\.33" width="33\.33"', html)
    assert f'action="/admin/rag/project/{made.pk}/reindex/"' in html


def test_vectors_of_another_model_are_told_apart(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    reindex(project=made)
    Chunk.objects.filter(origin_key="docs/tides.md").update(embedding=[1.0] * 768, embedding_model="old-model")
    assert "1 of another model, old-model , count as not embedded." in words(admin_client, made)


def test_a_project_without_any_run_has_a_page(admin_client: Client, project: MakeProject) -> None:
    text = words(admin_client, project(FILES))
    assert "There was no finished run yet." in text and "Docs: missing" in text


def test_a_repository_out_of_reach_is_a_sentence_beside_what_the_index_knows(
    admin_client: Client, project: MakeProject
) -> None:
    made = project(FILES)
    reindex(project=made)
    Project.objects.filter(pk=made.pk).update(repository="/nowhere")
    text = words(admin_client, made)
    assert "The sources cannot be compared now." in text
    assert "Docs 3" in text and "Last run" in text and "docs/latin.md" in text


def test_paths_are_escaped(admin_client: Client, project: MakeProject) -> None:
    html = admin_client.get(page(project({"docs/<img src=x>.md": "# A\n\nB.\n"}))).content.decode()
    assert "&lt;img src=x&gt;" in html and "<img src=x>" not in html


def test_long_lists_end_somewhere(admin_client: Client, project: MakeProject) -> None:
    made = project({f"docs/{number:03}.md": f"# N{number}\n\nText.\n" for number in range(120)})
    html = admin_client.get(page(made)).content.decode()
    assert "docs/099.md" in html and "docs/100.md" not in html and "and more" in html


def test_the_page_is_for_staff_who_may_see_projects(project: MakeProject) -> None:
    made = project(FILES)
    people = visitors(made)
    for client in (people.maintainer, people.viewer, people.outsider, people.anonymous):
        assert client.get(page(made)).status_code == 302
    assert people.staff.get(page(made)).status_code == 403
    looking = staff_with("view_project").get(page(made))
    assert looking.status_code == 200 and "Reindex now" not in looking.content.decode()


def test_the_page_is_read_only_and_protected(admin_client: Client, project: MakeProject) -> None:
    made = project(FILES)
    assert admin_client.post(page(made)).status_code == 405
    assert "script-src 'self'" in admin_client.get(page(made))["Content-Security-Policy"]
