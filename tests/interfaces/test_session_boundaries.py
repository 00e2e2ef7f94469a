"""A member of one project cannot read, append to, search or resolve anything of another project by any id."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from rest_framework.test import APIClient

from rag import eventlog
from rag.indexing import reindex
from rag.models import Chunk, Project, Role, SessionEvent
from tests.conftest import MakeProject
from tests.interfaces.callers import caller, post

pytestmark = pytest.mark.django_db

#: Stands in everything that is theirs.
MARK = "zanzibar"
SESSION, EVENT = f"{MARK}-session", f"{MARK}-event"
NEW = {"id": "new", "type": "chat.message", "content": "Let me in."}


@dataclass(frozen=True, slots=True)
class Worlds:
    """Two indexed projects, and a maintainer of ``ours`` alone."""

    ours: Project
    theirs: Project
    client: APIClient
    chunk: str
    run: str


@pytest.fixture
def worlds(project: MakeProject) -> Worlds:
    ours = project({"README.md": "# Ours\n"}, slug="ours", name="ours")
    theirs = project({"README.md": f"# {MARK}\n"}, slug="theirs", name="theirs")
    event = {"id": EVENT, "type": "chat.message", "author": MARK, "content": f"The {MARK} moors at noon."}
    eventlog.append(project=theirs, session_key=SESSION, title=f"About {MARK}", events=[event])
    # The same ids with other content here: whatever is found must be ours.
    eventlog.append(project=ours, session_key="shared", events=[{**NEW, "content": "Ours alone."}])
    eventlog.append(project=theirs, session_key="shared", events=[{**NEW, "content": f"Theirs: {MARK}."}])
    reindex(project=ours)
    run = reindex(project=theirs)
    chunk = Chunk.objects.get(event__key=EVENT)
    return Worlds(ours, theirs, caller("mia", ours=Role.MAINTAINER), str(chunk.pk), str(run.pk))


def routes(slug: str, worlds: Worlds) -> list[tuple[str, str, Any]]:
    """Every route that takes an id of a session, an event, a chunk or a run, with their ids."""
    base = f"/api/projects/{slug}"
    return [
        ("GET", f"{base}/sessions?after={SESSION}", None),
        ("GET", f"{base}/sessions/{SESSION}/events", None),
        ("GET", f"{base}/sessions/{SESSION}/events?after=0", None),
        ("POST", f"{base}/sessions/{SESSION}/events", {"events": [NEW]}),
        ("GET", f"{base}/sessions/{SESSION}/events/{EVENT}", None),
        ("GET", f"{base}/sessions/shared/events/{EVENT}", None),
        ("GET", f"{base}/rag/chunks/{worlds.chunk}", None),
        ("GET", f"{base}/rag/runs/{worlds.run}", None),
        ("GET", f"{base}/rag/runs?after={worlds.run}", None),
        ("POST", f"{base}/rag/reindex", {"sessions": [SESSION]}),
    ]


def call(worlds: Worlds, method: str, path: str, body: Any) -> Any:
    return worlds.client.get(path) if method == "GET" else post(worlds.client, path, body)


def test_their_ids_mean_nothing_in_our_project(worlds: Worlds) -> None:
    for method, path, body in routes("ours", worlds):
        answer = call(worlds, method, path, body)
        assert answer.status_code in (400, 404), path
        # A refusal may name the id that was sent; nothing else of theirs is in it.
        said = answer.content.decode().replace(SESSION, "").replace(EVENT, "")
        assert MARK not in said, path
    assert SessionEvent.objects.filter(project=worlds.theirs).count() == 2
    assert SessionEvent.objects.filter(project=worlds.ours).count() == 1


def test_their_project_does_not_exist_for_us(worlds: Worlds) -> None:
    others: list[tuple[str, str, Any]] = [
        ("GET", "/api/projects/theirs/sessions", None),
        ("POST", "/api/projects/theirs/sessions", {"id": "new", "events": [NEW]}),
        ("POST", "/api/projects/theirs/sessions", {"id": SESSION, "title": "Taken over"}),
        ("GET", "/api/projects/theirs/sessions/shared/events/new", None),
        ("POST", "/api/projects/theirs/rag/search", {"query": MARK}),
        ("GET", "/api/projects/theirs/rag/coverage", None),
        ("GET", "/api/projects/theirs/rag/runs", None),
    ]
    for method, path, body in [*routes("theirs", worlds), *others]:
        answer = call(worlds, method, path, body)
        nowhere = call(worlds, method, path.replace("theirs", "nowhere"), body)
        assert (answer.status_code, answer.content) == (404, nowhere.content), path
        assert MARK not in answer.content.decode()
    assert SessionEvent.objects.filter(project=worlds.theirs).count() == 2
    assert worlds.theirs.sessions.get(key=SESSION).title == f"About {MARK}"


def test_a_search_never_leaves_its_project(worlds: Worlds) -> None:
    for body in ({"query": MARK}, {"query": f"The {MARK} moors at noon."}, {"query": MARK, "sessionId": SESSION}):
        answer = post(worlds.client, "/api/projects/ours/rag/search", {**body, "scopes": ["session", "docs"]})
        assert answer.status_code == 200
        assert answer.json()["hits"] == []
    found = post(worlds.client, "/api/projects/ours/rag/search", {"query": "alone theirs", "sessionId": "shared"})
    assert [hit["content"] for hit in found.json()["hits"]] == ["Ours alone."]


def test_the_same_ids_lead_to_our_own(worlds: Worlds) -> None:
    assert worlds.client.get("/api/projects/ours/sessions/shared/events/new").json()["content"] == "Ours alone."
    assert [row["id"] for row in worlds.client.get("/api/projects/ours/sessions").json()["results"]] == ["shared"]
    again = post(worlds.client, "/api/projects/ours/sessions/shared/events", {"events": [{**NEW, "content": "Mine"}]})
    assert again.json()["conflicts"] == ["new"]
    theirs = eventlog.find_event(project=worlds.theirs, session_key="shared", event_key="new")
    assert theirs.content == f"Theirs: {MARK}."


def test_every_hit_resolves_to_the_message_that_holds_its_text(project: MakeProject) -> None:
    demo = project({"README.md": "# Harbour\n"})
    picture = base64.b64encode(bytes(range(256)) * 4).decode()
    sessions = ("s-1", "a/b", "event", "ключ %2F ?#")
    lengths = {"e1": 1, "x/event/y": 60, "2024/05/01": 2, "50%/½": 30}
    for session in sessions:
        events = [
            {
                "id": key,
                "type": "agent.response",
                "content": f"{picture}\n"
                + "\n".join(f"Crate {n} of {session} {key} goes ashore." for n in range(length)),
            }
            for key, length in lengths.items()
        ]
        eventlog.append(project=demo, session_key=session, events=events)
    reindex(project=demo)
    client = caller("vera", demo=Role.VIEWER)
    resolved = set()
    for session in sessions:
        body = {"query": "crate ashore", "scopes": ["session"], "limit": 50, "sessionId": session}
        for hit in post(client, "/api/projects/demo/rag/search", body).json()["hits"]:
            found, event = hit["origin"]["sessionId"], hit["origin"]["eventId"]
            answer = client.get(f"/api/projects/demo/sessions/{quote(found, safe='')}/events/{quote(event, safe='')}")
            assert (answer.status_code, answer.json()["id"]) == (200, event)
            assert hit["content"].removeprefix("[data left out]").strip() in answer.json()["content"]
            resolved.add((found, event))
    assert resolved == {(session, key) for session in sessions for key in lengths}


@pytest.mark.parametrize(
    "path",
    [
        "sessions?after=a%00b",
        "sessions?after=%ED%A0%80",
        "sessions?limit=%00",
        "sessions?limit=5&after=%FF",
        "sessions/shared/events?after=%00",
        "sessions/shared/events?limit=%00",
        "sessions/a%00b/events",
        "sessions/a%00b/events/e",
        "sessions/shared/events/%00",
        "sessions/shared/events/%FF",
        "sessions/%ED%A0%80/events",
    ],
)
def test_nul_and_bytes_that_are_no_text_are_refused_by_every_parameter(worlds: Worlds, path: str) -> None:
    answer = worlds.client.get(f"/api/projects/ours/{path}")
    assert answer.status_code in (400, 404)
    assert list(answer.json())
