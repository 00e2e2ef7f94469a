"""GET and POST …/sessions, …/sessions/{id}/events, GET …/events/{eventId}."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from rag.indexing import reindex
from rag.models import Session, SessionEvent
from tests.conftest import MakeProject
from tests.interfaces.callers import assert_closed_to_strangers, bare_project, callers, post, post_raw
from tests.interfaces.contract import assert_conforms

PATH = "/api/projects/demo/sessions"

TALK = [
    {
        "id": "e1",
        "type": "chat.message",
        "author": "ana",
        "at": "2024-05-01T12:00:00Z",
        "content": "Where do ships moor?",
    },
    {"id": "e2", "type": "tool.call", "content": "", "payload": {"name": "search", "arguments": ["quay", 1.5, None]}},
    {"id": "e3", "type": "agent.response", "content": "At the northern quay."},
]


def test_a_maintainer_opens_a_session_and_members_read_it(db: None) -> None:
    people = callers(bare_project())
    opened = post(people.maintainer, PATH, {"id": "s1", "title": "Moorings", "events": TALK})
    assert opened.status_code == 201
    assert_conforms(opened.json(), "Appended")
    assert (opened.json()["sessionId"], opened.json()["created"], opened.json()["repeated"]) == ("s1", 3, 0)
    for client in (people.viewer, people.maintainer):
        listed = client.get(PATH).json()
        assert_conforms(listed, "PaginatedSessionList")
        (row,) = listed["results"]
        assert (row["id"], row["title"], row["eventCount"], row["messageCount"]) == ("s1", "Moorings", 3, 2)
        events = client.get(f"{PATH}/s1/events").json()
        assert_conforms(events, "PaginatedEventList")
        assert [(event["id"], event["sequence"]) for event in events["results"]] == [("e1", 1), ("e2", 2), ("e3", 3)]
        event = client.get(f"{PATH}/s1/events/e2")
        assert event.status_code == 200
        assert_conforms(event.json(), "Event")
        assert event.json()["payload"] == TALK[1]["payload"]


def test_a_session_without_an_id_gets_one(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    first, second = (post(maintainer, PATH, {"title": "Untitled"}) for _ in range(2))
    assert first.status_code == second.status_code == 201
    assert first.json()["sessionId"] != second.json()["sessionId"]
    assert maintainer.get(f"{PATH}/{first.json()['sessionId']}/events").json()["results"] == []


def test_appending_again_stores_nothing_twice(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    post(maintainer, PATH, {"id": "s1", "events": TALK[:2]})
    again = post(maintainer, f"{PATH}/s1/events", {"events": TALK})
    assert (again.status_code, again.json()["created"], again.json()["repeated"]) == (201, 1, 2)
    once_more = post(maintainer, f"{PATH}/s1/events", {"events": TALK})
    assert (once_more.status_code, once_more.json()["created"], once_more.json()["repeated"]) == (200, 0, 3)
    assert SessionEvent.objects.count() == 3


def test_an_id_that_is_taken_by_another_content_is_told(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    post(maintainer, PATH, {"id": "s1", "events": TALK})
    other = {"id": "e1", "type": "chat.message", "content": "Something else."}
    answer = post(maintainer, f"{PATH}/s1/events", {"events": [other]})
    assert answer.json()["conflicts"] == ["e1"]
    assert maintainer.get(f"{PATH}/s1/events/e1").json()["content"] == TALK[0]["content"]


def test_a_viewer_reads_and_does_not_write(db: None) -> None:
    people = callers(bare_project())
    post(people.maintainer, PATH, {"id": "s1"})
    for path, body in ((PATH, {"id": "s2"}), (f"{PATH}/s1/events", {"events": TALK})):
        answer = post(people.viewer, path, body)
        assert (answer.status_code, list(answer.json())) == (403, ["detail"])
    assert (Session.objects.count(), SessionEvent.objects.count()) == (1, 0)


def test_strangers_find_no_project(db: None) -> None:
    people = callers(bare_project())
    post(people.maintainer, PATH, {"id": "s1", "events": TALK})
    for method, path, body in (
        ("GET", PATH, None),
        ("POST", PATH, {"id": "s2"}),
        ("GET", f"{PATH}/s1/events", None),
        ("POST", f"{PATH}/s1/events", {"events": TALK}),
        ("GET", f"{PATH}/s1/events/e1", None),
        ("GET", f"{PATH}/none/events/e1", None),
    ):
        assert_closed_to_strangers(people, method, path, body)
    assert Session.objects.count() == 1


def test_another_projects_sessions_do_not_exist_here(db: None) -> None:
    made, other = bare_project(), bare_project("other")
    post(callers_of_other(other), "/api/projects/other/sessions", {"id": "theirs", "events": TALK})
    people = callers(made)
    post(people.maintainer, PATH, {"id": "ours"})
    for answer in (
        people.viewer.get(f"{PATH}/theirs/events"),
        people.viewer.get(f"{PATH}/theirs/events/e1"),
        people.viewer.get(f"{PATH}/ours/events/e1"),
        post(people.maintainer, f"{PATH}/theirs/events", {"events": TALK}),
    ):
        assert (answer.status_code, list(answer.json())) == (404, ["detail"])
    assert [row["id"] for row in people.viewer.get(PATH).json()["results"]] == ["ours"]
    assert people.viewer.get(PATH, {"after": "theirs"}).status_code == 400


def test_two_projects_may_use_the_same_ids(db: None) -> None:
    made, other = bare_project(), bare_project("other")
    post(callers_of_other(other), "/api/projects/other/sessions", {"id": "s1", "events": TALK})
    answer = post(callers(made).maintainer, PATH, {"id": "s1", "events": TALK})
    assert (answer.status_code, answer.json()["created"]) == (201, 3)


def callers_of_other(other: Any) -> Any:
    """A maintainer of the other project."""
    from rag.models import Role
    from tests.interfaces.callers import caller

    return caller("olga", **{other.slug: Role.MAINTAINER})


def test_ids_of_any_kind_lead_back_to_their_event(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    for key in ("a/b", "a b", "ключ", "$e:server", "a%2Fb", "?q=1", "eventful"):
        post(maintainer, PATH, {"id": key, "events": [{"id": f"{key}/1", "type": "chat.message", "content": "Hi."}]})
        answer = maintainer.get(f"{PATH}/{quote(key, safe='')}/events/{quote(f'{key}/1', safe='')}")
        assert (answer.status_code, answer.json()["id"]) == (200, f"{key}/1")


def test_the_log_is_followed_by_its_sequence(db: None) -> None:
    people = callers(bare_project())
    events = [{"type": "chat.message", "content": f"Message {n}"} for n in range(5)]
    post(people.maintainer, PATH, {"id": "s1", "events": events})
    seen, url = [], f"{PATH}/s1/events?limit=2"
    while url:
        page = people.viewer.get(url).json()
        seen += [event["content"] for event in page["results"]]
        url = page["next"]
    assert seen == [event["content"] for event in events]
    assert people.viewer.get(f"{PATH}/s1/events?after=5").json() == {"results": [], "next": None}
    post(people.maintainer, f"{PATH}/s1/events", {"events": [{"type": "chat.message", "content": "One more"}]})
    later = people.viewer.get(f"{PATH}/s1/events?after=5").json()["results"]
    assert [event["content"] for event in later] == ["One more"]


@pytest.mark.parametrize("after", ["-1", "x", "1.0", "", "٣", str(2**31), "9" * 30])
def test_a_sequence_number_that_cannot_be_is_refused(db: None, after: str) -> None:
    people = callers(bare_project())
    post(people.maintainer, PATH, {"id": "s1"})
    answer = people.viewer.get(f"{PATH}/s1/events", {"after": after})
    assert (answer.status_code, list(answer.json())) == (400, ["after"])


def deep(levels: int) -> dict[str, Any]:
    """An object nested that many levels deep."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"content": "No type"}, "events[1].type"),
        ({"type": "", "content": ""}, "events[1].type"),
        ({"type": "x" * 101, "content": ""}, "events[1].type"),
        ({"type": "chat.message"}, "events[1].content"),
        ({"type": "chat.message", "content": "a\0b"}, "events[1].content"),
        ({"type": "chat.message", "content": "\ud83d"}, "events[1].content"),
        ({"type": "chat.message", "content": 1}, "events[1].content"),
        ({"type": "chat.message", "content": "", "id": ""}, "events[1].id"),
        ({"type": "chat.message", "content": "", "id": "x" * 201}, "events[1].id"),
        ({"type": "chat.message", "content": "", "at": "yesterday"}, "events[1].at"),
        ({"type": "chat.message", "content": "", "at": "0001-01-01T00:00:00+23:59"}, "events[1].at"),
        ({"type": "tool.call", "content": "", "payload": []}, "events[1].payload"),
        ({"type": "tool.call", "content": "", "payload": {"a": ["b\0"]}}, "events[1].payload"),
        ({"type": "tool.call", "content": "", "payload": {"\ud800": 1}}, "events[1].payload"),
        ({"type": "tool.call", "content": "", "payload": deep(80)}, "events[1].payload"),
        ({"type": "tool.call", "content": "", "text": ""}, "events[1].text"),
    ],
)
def test_what_is_wrong_is_refused_by_its_place_and_nothing_is_stored(
    db: None, event: dict[str, Any], field: str
) -> None:
    maintainer = callers(bare_project()).maintainer
    post(maintainer, PATH, {"id": "s1"})
    answer = post(maintainer, f"{PATH}/s1/events", {"events": [TALK[0], event]})
    assert (answer.status_code, list(answer.json())) == (400, [field])
    assert not SessionEvent.objects.exists()


def test_a_number_beyond_all_bounds_is_refused(db: None) -> None:
    maintainer = callers(bare_project()).maintainer
    raw = b'{"id": "s1", "events": [{"type": "tool.call", "content": "", "payload": {"n": 1e400}}]}'
    answer = post_raw(maintainer, PATH, raw)
    assert (answer.status_code, list(answer.json())) == (400, ["events[0].payload"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"events": []}, "events"),
        ({}, "events"),
        ({"events": {}}, "events"),
        ({"events": [TALK[0]] * 1001}, "events"),
        ({"events": TALK, "session": "s1"}, "session"),
    ],
)
def test_a_bulk_append_is_bounded(db: None, body: dict[str, Any], field: str) -> None:
    maintainer = callers(bare_project()).maintainer
    post(maintainer, PATH, {"id": "s1"})
    answer = post(maintainer, f"{PATH}/s1/events", body)
    assert (answer.status_code, list(answer.json())) == (400, [field])


def test_a_hit_in_a_session_leads_to_its_event(project: MakeProject) -> None:
    made = project({"docs/empty.md": "Nothing here.\n"})
    people = callers(made)
    post(people.maintainer, PATH, {"id": "s1", "title": "Moorings", "events": TALK})
    reindex(project=made)
    found = post(people.viewer, "/api/projects/demo/rag/search", {"query": "northern quay", "scopes": ["session"]})
    assert_conforms(found.json(), "SearchAnswer")
    origin = found.json()["hits"][0]["origin"]
    assert (origin["kind"], origin["sessionId"], origin["eventId"]) == ("session", "s1", "e3")
    event = people.viewer.get(f"{PATH}/{origin['sessionId']}/events/{origin['eventId']}").json()
    assert event["content"] == "At the northern quay."
