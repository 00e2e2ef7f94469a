"""The session event log: nothing twice, nothing lost, one order, counts that add up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from rag import eventlog
from rag.core.errors import InvalidInput, NotFound
from rag.eventlog.importing import IMPORT_EVENTS, MOST_PROBLEMS
from rag.models import Project, Session, SessionEvent

TALK = [
    {"id": "e1", "type": "chat.message", "author": "ana", "at": "2024-05-01T12:00:00Z", "content": "Where do we moor?"},
    {"id": "e2", "type": "tool.call", "content": "", "payload": {"name": "search", "arguments": ["quay", 1.5, None]}},
    {"id": "e3", "type": "agent.response", "content": "At the northern quay."},
]


@pytest.fixture
def harbour(db: None) -> Project:
    """A project without a repository: the log needs none."""
    return Project.objects.create(slug="harbour", repository="https://forge.invalid/harbour.git")


def append(project: Project, *events: dict[str, Any], session: str = "s-1", **fields: Any) -> eventlog.AppendResult:
    return eventlog.append(project=project, session_key=session, events=events, **fields)


def contents(project: Project, session: str = "s-1") -> list[str]:
    return [event.content for event in eventlog.events_of(eventlog.find_session(project=project, key=session))]


def assert_counts(project: Project) -> None:
    """What each session says of itself is what its log holds, in one unbroken sequence."""
    for session in Session.objects.filter(project=project):
        events = list(eventlog.events_of(session))
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))
        messages = [event for event in events if event.type in ("chat.message", "agent.response")]
        assert (session.event_count, session.message_count) == (len(events), len(messages))


# ---- appending ------------------------------------------------------------------------------------------------------


def test_events_are_kept_as_they_came_in_their_order(harbour: Project) -> None:
    done = append(harbour, *TALK, title="Mooring")
    assert done == eventlog.AppendResult(created=3, repeated=0, conflicts=(), events=("e1", "e2", "e3"))
    session = eventlog.find_session(project=harbour, key="s-1")
    assert (session.title, session.event_count, session.message_count) == ("Mooring", 3, 2)
    call = eventlog.find_event(project=harbour, session_key="s-1", event_key="e2")
    assert (call.sequence, call.type, call.payload) == (2, "tool.call", TALK[1]["payload"])
    first = eventlog.find_event(project=harbour, session_key="s-1", event_key="e1")
    assert (first.author, first.at, first.content) == ("ana", datetime(2024, 5, 1, 12, tzinfo=UTC), TALK[0]["content"])
    assert_counts(harbour)


def test_a_repetition_stores_nothing_and_changes_nothing(harbour: Project) -> None:
    append(harbour, *TALK)
    with CaptureQueriesContext(connection) as queries:
        done = append(harbour, *TALK)
    assert (done.created, done.repeated, done.conflicts) == (0, 3, ())
    assert not [q["sql"] for q in queries if q["sql"].startswith(("INSERT", "UPDATE"))]
    assert_counts(harbour)


def test_a_taken_id_is_told_and_the_first_event_stands(harbour: Project) -> None:
    append(harbour, *TALK)
    done = append(harbour, {**TALK[0], "content": "Something else"}, {"type": "chat.message", "content": "New"})
    assert (done.created, done.repeated, done.conflicts) == (1, 0, ("e1",))
    assert contents(harbour)[0] == TALK[0]["content"]
    assert_counts(harbour)


def test_the_same_id_within_one_call_is_judged_in_order(harbour: Project) -> None:
    done = append(harbour, TALK[0], dict(TALK[0]), {**TALK[0], "content": "Other"})
    assert (done.created, done.repeated, done.conflicts) == (1, 1, ("e1",))
    assert_counts(harbour)


def test_events_without_an_id_are_not_stored_twice(harbour: Project) -> None:
    yes = {"type": "chat.message", "author": "ana", "content": "Yes."}
    first = append(harbour, yes, yes, {**yes, "author": "bo"})
    again = append(harbour, yes, yes, {**yes, "author": "bo"})
    assert (first.created, again.created, again.repeated) == (3, 0, 3)
    assert first.events == again.events
    assert append(harbour, {**yes, "at": "2024-05-01T12:00:00Z"}).created == 1
    assert_counts(harbour)


def test_one_invalid_event_stores_none(harbour: Project) -> None:
    with pytest.raises(InvalidInput) as caught:
        append(harbour, TALK[0], {"type": "chat.message", "content": 5})
    assert caught.value.field == "events[1].content"
    assert not Session.objects.exists()


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "a\x00b", "a\ud800", "..", "a/./b", "a/events"])
def test_a_session_id_that_no_url_could_name_is_refused(harbour: Project, key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        append(harbour, TALK[0], session=key)
    assert caught.value.field == "id"


def test_a_session_may_be_opened_without_events(harbour: Project) -> None:
    assert append(harbour, title="Empty").created == 0
    session = Session.objects.get()
    assert (session.title, session.event_count, session.last_event_at) == ("Empty", 0, None)


def test_a_title_is_replaced_by_another_and_not_by_none(harbour: Project) -> None:
    append(harbour, title="One")
    append(harbour, title="Two")
    append(harbour, *TALK)
    assert Session.objects.get().title == "Two"


def test_the_last_event_is_the_latest_whatever_the_order(harbour: Project) -> None:
    for at in ("2024-05-03T12:00:00Z", "2024-05-01T12:00:00Z"):
        append(harbour, {"type": "chat.message", "content": at, "at": at})
    assert Session.objects.get().last_event_at == datetime(2024, 5, 3, 12, tzinfo=UTC)


def test_what_postgresql_cannot_hold_is_replaced_and_the_rest_is_stored(harbour: Project) -> None:
    append(
        harbour,
        {"id": "e1", "type": "chat.message", "content": "good one"},
        {"id": "e2", "type": "tool.result", "content": "cut emoji \ud83d here\x00", "payload": {"raw\x00": "\udfff"}},
        {"id": "e3", "type": "chat.message", "content": "also good"},
        title="A\x00 title",
    )
    assert contents(harbour) == ["good one", "cut emoji \ufffd here\ufffd", "also good"]
    assert SessionEvent.objects.get(key="e2").payload == {"raw\ufffd": "\ufffd"}
    assert append(harbour, {"id": "e1", "type": "chat.message", "content": "good one"}).repeated == 1
    assert Session.objects.get().title == "A\ufffd title"


def test_two_projects_may_use_the_same_ids(harbour: Project) -> None:
    other = Project.objects.create(slug="other", repository="https://forge.invalid/other.git")
    append(harbour, *TALK)
    assert append(other, *TALK).created == 3
    assert_counts(harbour)
    assert_counts(other)


def test_another_projects_sessions_and_events_are_not_found(harbour: Project) -> None:
    other = Project.objects.create(slug="other", repository="https://forge.invalid/other.git")
    append(harbour, *TALK)
    append(other, session="theirs")
    for session, event in (("s-1", "e1"), ("theirs", "e1"), ("s\x00", "e1"), ("theirs", "e\x00")):
        with pytest.raises(NotFound):
            eventlog.find_event(project=other, session_key=session, event_key=event)


@pytest.mark.django_db(transaction=True)
def test_concurrent_appends_lose_nothing_and_share_one_sequence() -> None:
    harbour = Project.objects.create(slug="harbour", repository="https://forge.invalid/harbour.git")
    shared = [{"id": f"shared-{n}", "type": "chat.message", "content": str(n)} for n in range(20)]
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for n in range(5):
                append(harbour, {"id": f"{name}-{n}", "type": "tool.call", "content": name}, *shared)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert SessionEvent.objects.count() == 4 * 5 + 20
    assert_counts(harbour)


# ---- importing ------------------------------------------------------------------------------------------------------


def as_lines(*values: Any) -> list[bytes]:
    return [value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n" for value in values]


def import_lines(project: Project, lines: Iterable[bytes]) -> eventlog.ImportResult:
    return eventlog.import_lines(project=project, lines=lines)


def test_lines_of_several_sessions_are_imported_and_a_second_import_adds_nothing(harbour: Project) -> None:
    lines = as_lines(*({"session": key, "title": key.upper(), **event} for event in TALK for key in ("a", "b")))
    first, second = import_lines(harbour, lines), import_lines(harbour, lines)
    assert (first.sessions, first.created, first.repeated, first.refused) == (2, 6, 0, 0)
    assert (second.sessions, second.created, second.repeated) == (2, 0, 6)
    assert {session.title for session in Session.objects.all()} == {"A", "B"}
    assert contents(harbour, "a") == contents(harbour, "b") == [event["content"] for event in TALK]
    assert_counts(harbour)


def test_lines_without_ids_may_be_imported_again_across_batches(harbour: Project) -> None:
    line = {"session": "s-1", "type": "chat.message", "content": "Yes."}
    lines = as_lines(*[line] * (IMPORT_EVENTS + 10))
    assert import_lines(harbour, lines).created == IMPORT_EVENTS + 10
    assert import_lines(harbour, lines).repeated == IMPORT_EVENTS + 10
    assert import_lines(harbour, [*lines, *as_lines(line)]).created == 1
    assert_counts(harbour)


def test_broken_lines_are_named_and_the_others_are_stored(harbour: Project) -> None:
    good = [{"session": "s-1", **event} for event in TALK]
    done = import_lines(harbour, as_lines(good[0], b"{broken}\n", b"\n", good[1], {"session": "s-1"}, good[2]))
    assert (done.created, done.refused, done.waiting) == (3, 2, None)
    assert [problem.line for problem in done.problems] == [2, 5]


def test_a_half_written_last_line_waits_and_comes_with_the_next_import(harbour: Project) -> None:
    whole = as_lines({"session": "s-1", **TALK[0]}, {"session": "s-1", "content": "Half written", "type": "x"})
    done = import_lines(harbour, [whole[0], whole[1][:30]])
    assert (done.created, done.refused, done.waiting) == (1, 0, 2)
    again = import_lines(harbour, whole)
    assert (again.created, again.repeated, again.waiting) == (1, 1, None)


def test_a_resumed_session_repeats_its_events_once_each(harbour: Project) -> None:
    before = as_lines(*({"session": "s-2", **event} for event in TALK))
    more = as_lines({"session": "s-2", "id": "e4", "type": "chat.message", "content": "And then?"})
    import_lines(harbour, before)
    done = import_lines(harbour, [*before, *more])
    assert (done.created, done.repeated) == (1, 3)


def test_conflicts_are_counted_and_named_by_their_line(harbour: Project) -> None:
    append(harbour, *TALK)
    done = import_lines(harbour, as_lines({"session": "s-1", **TALK[0]}, {"session": "s-1", **TALK[0], "content": "X"}))
    assert (done.created, done.repeated, done.conflicts, done.refused) == (0, 1, 1, 0)
    (problem,) = done.problems
    assert problem.line == 2
    assert "e1" in problem.reason and "s-1" in problem.reason


def test_problems_are_described_up_to_a_number_and_counted_beyond(harbour: Project) -> None:
    done = import_lines(harbour, [b"{broken}\n"] * (MOST_PROBLEMS + 50))
    assert (done.refused, len(done.problems)) == (MOST_PROBLEMS + 50, MOST_PROBLEMS)


def test_a_large_import_takes_few_statements(harbour: Project) -> None:
    lines = as_lines(*({"session": f"s-{n % 40}", "type": "tool.call", "content": str(n)} for n in range(2000)))
    with CaptureQueriesContext(connection) as queries:
        assert import_lines(harbour, lines).created == 2000
    assert len(queries) < 20
    assert_counts(harbour)


def test_nothing_to_import_is_nothing_done(harbour: Project) -> None:
    assert import_lines(harbour, []) == eventlog.ImportResult(0, 0, 0, 0, 0, (), None)
