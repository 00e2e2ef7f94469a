"""The scope ``session``: messages alone are indexed, a session at a time or all, and a citation leads to its event."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from rag import eventlog
from rag.citations import verify
from rag.core.errors import InvalidInput
from rag.core.transcript import LEFT_OUT, clean_message
from rag.coverage import coverage
from rag.indexing import reindex
from rag.indexing import sessions as indexing_sessions
from rag.models import Chunk, IndexRun, Project, Session
from rag.search import search
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

#: Put together here, so that this file holds none.
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY_LINES = "\n".join(base64.b64encode(random.Random(n).randbytes(48)).decode() for n in range(25))
KEY = f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{KEY_LINES}\n-----END RSA PRIVATE {'KEY'}-----"

MECHANISM = ("tool.call", "tool.result", "agent.status", "agent.error", "gate.opened", "chat.message.draft", "unknown")


@pytest.fixture
def harbour(db: None) -> Project:
    """A project whose repository is never asked: only sessions are indexed here."""
    return Project.objects.create(slug="harbour", repository="https://forge.invalid/harbour.git", state="ready")


def say(project: Project, session: str, *contents: str, title: str = "", kind: str = "chat.message") -> None:
    """Append messages with the ids e1, e2 …"""
    count = Session.objects.filter(project=project, key=session).values_list("event_count", flat=True).first() or 0
    events = [{"id": f"e{count + n}", "type": kind, "content": text} for n, text in enumerate(contents, start=1)]
    eventlog.append(project=project, session_key=session, title=title, events=events)


def index(project: Project, **options: Any) -> dict[str, Any]:
    """The report of a reindex of the sessions."""
    return reindex(project=project, scopes=["session"], **options).report


def counts(report: dict[str, Any]) -> tuple[int, int, int]:
    """``(created, deleted, unchanged)``."""
    scope = report["scopes"]["session"]
    return scope["created"], scope["deleted"], scope["unchanged"]


def skipped(report: dict[str, Any]) -> dict[str, str]:
    return {item["path"]: item["reason"] for item in report["skippedFiles"]}


def state(project: Project) -> list[tuple[Any, ...]]:
    """Everything that a run that changes nothing leaves alone."""
    rows = Chunk.objects.filter(project=project).order_by("id")
    return list(rows.values_list("id", "content", "title", "start_offset", "embedding_hash", "ordinal", "metadata"))


def session_coverage(project: Project) -> dict[str, int]:
    """The session part of coverage."""
    found: dict[str, int] = coverage(project=project)["scopes"]["session"]
    return found


# ---- what is indexed ------------------------------------------------------------------------------------------------


def test_messages_alone_are_indexed_and_sent(harbour: Project, ollama: OllamaServer) -> None:
    for kind in MECHANISM:
        say(harbour, "s-1", f"zanzibar in {kind}", kind=kind)
    say(harbour, "s-1", "Why a phone line?")
    say(harbour, "s-1", "The form lost bookings.", kind="agent.response")
    report = index(harbour)
    assert counts(report) == (2, 0, 0)
    assert report["embedding"]["embedded"] == 2
    assert len(ollama.texts) == 2
    assert not any("zanzibar" in text for text in ollama.texts)
    assert not search(project=harbour, query="zanzibar", scopes=["session"]).hits
    assert Session.objects.get().event_count == len(MECHANISM) + 2


def test_the_payload_of_a_message_is_not_indexed(harbour: Project, ollama: OllamaServer) -> None:
    event = {"type": "chat.message", "content": "Where?", "payload": {"draft": "zanzibar"}, "author": "zoe-zanzibar"}
    eventlog.append(project=harbour, session_key="s-1", events=[event])
    index(harbour)
    assert ollama.texts == ["search_document: Where?"]
    assert not search(project=harbour, query="zanzibar", scopes=["session"], vector=False).hits


def test_a_chunk_knows_its_event(harbour: Project) -> None:
    event = {"id": "m/7", "type": "agent.response", "author": "bot", "content": "At the quay."}
    eventlog.append(project=harbour, session_key="2024/s-1", title="Mooring", events=[event])
    index(harbour)
    chunk = Chunk.objects.get()
    assert chunk.metadata == {"sourceRef": "m/7", "type": "agent.response", "author": "bot"}
    assert (chunk.session.key, chunk.event.key, chunk.title) == ("2024/s-1", "m/7", "Mooring")
    (hit,) = search(project=harbour, query="quay", scopes=["session"]).hits
    assert (hit.origin.session_id, hit.origin.event_id, hit.origin.title) == ("2024/s-1", "m/7", "Mooring")
    found = verify(project=harbour, chunk_id=chunk.pk)
    assert (found["verified"], found["standing"]) == (True, "current")


def test_a_long_message_is_cut_by_size_and_each_piece_stands_in_the_message(harbour: Project) -> None:
    text = "\x1b[1mFirst\x1b[0m we moor. " + "Then we unload the hold, crate by crate. " * 200
    say(harbour, "s-1", text)
    index(harbour)
    chunks = list(Chunk.objects.order_by("start_offset"))
    assert len(chunks) > 5
    for chunk in chunks:
        assert clean_message(text)[chunk.start_offset : chunk.end_offset] == chunk.content
        assert verify(project=harbour, chunk_id=chunk.pk)["verified"]


def test_noise_is_dropped_from_the_index_and_not_from_the_log(harbour: Project, ollama: OllamaServer) -> None:
    picture = base64.b64encode(random.Random(1).randbytes(2000)).decode()
    noisy = f"\x1b[31mERROR\x1b[0m wharf{picture} \x00quay data:image/png;base64,{picture}"
    say(harbour, "s-1", noisy.replace("wharf", "wharf "))
    index(harbour)
    (text,) = ollama.texts
    assert text == f"search_document: ERROR wharf {LEFT_OUT} quay data:image/png;base64,{LEFT_OUT}"
    log = eventlog.find_event(project=harbour, session_key="s-1", event_key="e1").content
    assert log == noisy.replace("wharf", "wharf ").replace("\x00", "\ufffd")


def test_blank_messages_leave_no_chunk(harbour: Project) -> None:
    say(harbour, "s-1", "", " \n\t", "\x1b[0m", "\x00", "said")
    assert counts(index(harbour)) == (1, 0, 0)


def test_ids_with_slashes_never_meet(harbour: Project) -> None:
    for session, event in (("a", "b/c"), ("a/b", "c"), ("a", "b%2Fc"), ("a/b", "c ")):
        events = [{"id": event, "type": "chat.message", "content": "The same words."}]
        eventlog.append(project=harbour, session_key=session, events=events)
    assert counts(index(harbour)) == (4, 0, 0)
    assert counts(index(harbour)) == (0, 0, 4)


# ---- secrets and sizes ----------------------------------------------------------------------------------------------


def test_a_message_with_a_secret_is_skipped_with_its_reason_in_every_report(
    harbour: Project, ollama: OllamaServer
) -> None:
    say(harbour, "s-1", "Hello.", f"use {TOKEN} for now", f"the wharf key:\n{KEY}", "Thanks.")
    expected = {"s-1/e2": "access token (GitHub)", "s-1/e3": "private key"}
    for _ in range(2):
        report = index(harbour)
        assert skipped(report) == expected
        assert len(ollama.texts) == 2
    assert counts(report) == (0, 0, 2)
    sent = "".join(ollama.texts)
    assert TOKEN not in sent and "wharf" not in sent
    assert not search(project=harbour, query="wharf key use for now", scopes=["session"], vector=False).hits
    assert TOKEN in eventlog.find_event(project=harbour, session_key="s-1", event_key="e2").content


def test_a_secret_that_terminal_codes_hide_is_found(harbour: Project, ollama: OllamaServer) -> None:
    say(harbour, "s-1", f"{TOKEN[:12]}\x1b[1m{TOKEN[12:]}", f"{TOKEN[:12]}\x00{TOKEN[12:]}")
    assert len(skipped(index(harbour))) == 2
    assert ollama.texts == []


def test_of_a_session_with_a_secret_in_its_title_nothing_is_indexed(harbour: Project, ollama: OllamaServer) -> None:
    say(harbour, "s-1", "Hello.", title=f"how to use {TOKEN}")
    for _ in range(2):
        report = index(harbour)
        assert skipped(report) == {"s-1": "title: access token (GitHub)"}
        assert counts(report) == (0, 0, 0)
    assert ollama.texts == []
    eventlog.append(project=harbour, session_key="s-1", title="how to use tokens")
    report = index(harbour)
    assert (counts(report), skipped(report)) == ((1, 0, 0), {})


def test_new_messages_of_a_session_with_a_skipped_one_are_indexed(harbour: Project) -> None:
    say(harbour, "s-1", f"use {TOKEN}", "Hello.")
    index(harbour)
    say(harbour, "s-1", "And then?")
    report = index(harbour)
    assert (counts(report), list(skipped(report))) == ((1, 0, 1), ["s-1/e1"])


def test_a_message_beyond_the_size_limit_is_skipped(harbour: Project, settings: Any) -> None:
    settings.RAG_MAX_FILE_BYTES = 1000
    say(harbour, "s-1", "я" * 501, "я" * 500)
    report = index(harbour)
    assert (counts(report), skipped(report)) == ((1, 0, 0), {"s-1/e1": "larger than 1000 bytes"})
    settings.RAG_MAX_FILE_BYTES = 2000
    report = index(harbour)
    assert (counts(report), skipped(report)) == ((1, 0, 1), {})


# ---- what a run does ------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(harbour: Project, ollama: OllamaServer) -> None:
    for n in range(3):
        say(harbour, f"s-{n}", "Hello.", "Where do we moor?" * 200, f"Berth {n}.", title=f"Talk {n}")
    index(harbour)
    before, sent = state(harbour), len(ollama.texts)
    report = index(harbour)
    assert counts(report) == (0, 0, len(before))
    assert (state(harbour), len(ollama.texts)) == (before, sent)
    assert report["embedding"]["available"] is None


def test_only_what_came_since_is_cut(harbour: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    say(harbour, "grows", *(f"Message {n}" for n in range(20)))
    say(harbour, "stays", "Hello.")
    index(harbour)
    say(harbour, "grows", "One more")
    cut: list[str] = []
    clean = indexing_sessions.clean_message
    monkeypatch.setattr(indexing_sessions, "clean_message", lambda content: cut.append(content) or clean(content))
    assert counts(index(harbour)) == (1, 0, 21)
    assert cut == ["One more"]
    assert Session.objects.get(key="grows").chunk_count == Chunk.objects.filter(session__key="grows").count() == 21


def test_the_index_is_a_function_of_the_log_alone(harbour: Project) -> None:
    """Grown run by run, indexed at once, or from scratch: the same chunks."""
    other = Project.objects.create(slug="other", repository="https://forge.invalid/other.git", state="ready")
    for n in range(4):
        for project in (harbour, other):
            say(project, f"s-{n % 2}", f"Message {n}", "The same.", "The same." * n, title=f"Title {n // 2}")
        index(harbour)
    index(other)

    def shape(project: Project) -> list[tuple[Any, ...]]:
        columns = ("origin_key", "content", "title", "start_offset", "embedding_hash", "metadata", "terms_a", "terms_d")
        return list(Chunk.objects.filter(project=project).order_by("origin_key", "start_offset").values_list(*columns))

    assert shape(harbour) == shape(other)
    before = state(harbour)
    index(harbour, from_scratch=True)
    assert state(harbour) == before


def test_one_session_may_be_indexed_alone(harbour: Project) -> None:
    say(harbour, "s-1", "Hello.")
    say(harbour, "s-2", "Good day.")
    run = reindex(project=harbour, sessions=["s-2"])
    assert list(run.report["scopes"]) == ["session"]
    assert list(Chunk.objects.values_list("session__key", flat=True)) == ["s-2"]
    assert counts(index(harbour)) == (1, 0, 1)


@pytest.mark.parametrize("key", ["s-3", "theirs", ""])
def test_a_session_that_does_not_exist_is_named_and_the_index_stays(harbour: Project, key: str) -> None:
    other = Project.objects.create(slug="other", repository="https://forge.invalid/other.git", state="ready")
    say(other, "theirs", "Hello.")
    say(harbour, "s-1", "Hello.")
    index(harbour)
    with pytest.raises(InvalidInput, match="no session") as caught:
        reindex(project=harbour, sessions=["s-1", key])
    assert caught.value.field == "sessions"
    assert repr(key) in str(caught.value)
    assert IndexRun.objects.filter(project=harbour, state="failed").count() == 1
    assert Chunk.objects.filter(project=harbour).count() == 1


@pytest.mark.parametrize("key", ["s\x00", "s\ud800"])
def test_a_session_id_that_cannot_be_is_named_too(harbour: Project, key: str) -> None:
    with pytest.raises(InvalidInput, match="no session"):
        indexing_sessions.check_sessions(harbour, [key])


def test_another_title_moves_no_chunk_and_is_embedded_and_found(project: MakeProject, ollama: OllamaServer) -> None:
    harbour = project({})
    say(harbour, "s-1", "Hello.", title="Mooring")
    index(harbour)
    (before,) = Chunk.objects.values_list("id", flat=True)
    for title in ("Unloading", ""):
        Session.objects.update(title=title)
        assert session_coverage(harbour)["stale"] == 1
        assert counts(index(harbour)) == (0, 0, 1)
        assert session_coverage(harbour)["stale"] == 0
        (chunk,) = Chunk.objects.all()
        assert (chunk.pk, chunk.title) == (before, title)
    assert ollama.texts[-2:] == ["search_document: Unloading\n\nHello.", "search_document: Hello."]
    assert not search(project=harbour, query="unloading mooring", scopes=["session"], vector=False).hits


def test_equal_texts_of_two_sessions_are_embedded_once(harbour: Project, ollama: OllamaServer) -> None:
    say(harbour, "s-1", "Hello there.", title="Talk")
    say(harbour, "s-2", "Hello there.", title="Talk")
    say(harbour, "s-3", "Hello there.", title="Another")
    index(harbour)
    assert len(ollama.texts) == 2
    say(harbour, "s-4", "Hello there.", title="Talk")
    report = index(harbour)
    assert len(ollama.texts) == 2
    assert (report["embedding"]["embedded"], report["embedding"]["reused"]) == (0, 4)


def test_messages_of_an_event_that_left_the_log_leave_the_index(harbour: Project) -> None:
    say(harbour, "s-1", "One.", "Two.", "Three.")
    index(harbour)
    chunk = Chunk.objects.get(content="Two.")
    session = Session.objects.get()
    session.events.filter(key="e2").delete()
    Session.objects.update(message_count=2)
    assert not Chunk.objects.filter(pk=chunk.pk).exists()
    assert counts(index(harbour, from_scratch=True)) == (0, 0, 2)
    assert Session.objects.get().chunk_count == 2


def test_sessions_are_read_in_batches_of_any_size(harbour: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing_sessions, "BATCH", 2)
    for n in range(5):
        say(harbour, f"s-{n}", *(f"Message {n}.{m}" for m in range(n)))
    assert counts(index(harbour)) == (10, 0, 0)
    Session.objects.update(title="Renamed")
    assert counts(index(harbour)) == (0, 0, 10)
    assert set(Chunk.objects.values_list("title", flat=True)) == {"Renamed"}


def test_progress_counts_messages(harbour: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing_sessions, "TOLD", 10)
    say(harbour, "long", *(f"Message {n}" for n in range(25)))
    say(harbour, "short", "Hello.", "Good day.")
    told: list[tuple[int, int]] = []

    def watch(phase: str, done: int, total: int) -> None:
        if phase == "reading":
            told.append((done, total))

    index(harbour, watcher=watch)
    assert told == [(0, 27), (10, 27), (20, 27), (27, 27)]


# ---- coverage -------------------------------------------------------------------------------------------------------


def test_coverage_counts_sessions_with_citable_messages(project: MakeProject) -> None:
    demo = project({"README.md": "# Harbour\n"})
    say(demo, "silent", "running", kind="agent.status")
    eventlog.append(project=demo, session_key="empty")
    for key in ("grows", "stays", "late"):
        say(demo, key, "Hello.")
    reindex(project=demo, sessions=["grows", "stays"])
    say(demo, "grows", "And then?")
    say(demo, "stays", "grep", kind="tool.call")
    assert session_coverage(demo) == {
        "total": 3,
        "indexed": 2,
        "missing": 1,
        "stale": 1,
        "withoutMessages": 2,
    }
    reindex(project=demo)
    found = coverage(project=demo)
    assert found["scopes"]["session"] == {
        "total": 3,
        "indexed": 3,
        "missing": 0,
        "stale": 0,
        "withoutMessages": 2,
    }
    assert found["embedding"]["total"] == Chunk.objects.filter(project=demo).count()


def test_a_session_whose_messages_were_all_skipped_counts_as_indexed(project: MakeProject) -> None:
    harbour = project({})
    say(harbour, "s-1", f"use {TOKEN}")
    index(harbour)
    found = session_coverage(harbour)
    assert (found["total"], found["indexed"], found["stale"]) == (1, 1, 0)
