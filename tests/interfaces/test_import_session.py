"""``manage.py import_session``: what it says, its exit codes, and what it leaves in the log."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag.core.event_lines import LONGEST_LINE
from rag.management.commands import import_session
from rag.models import Project, Session, SessionEvent
from tests.interfaces.commands import Manage, Said

pytestmark = pytest.mark.django_db

TALK = [
    {"session": "s-1", "title": "Pilot booking", "id": "e1", "type": "chat.message", "content": "Why a phone line?"},
    {"session": "s-1", "id": "e2", "type": "tool.call", "content": "", "payload": {"tool": "grep"}},
    {"session": "s-1", "id": "e3", "type": "agent.response", "author": "bot", "content": "The form lost bookings."},
]

Run = Callable[..., Said]


@pytest.fixture
def run(manage: Manage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Import these lines, from a file or from standard input, as ``manage.py`` does."""
    Project.objects.create(slug="harbour", repository="https://forge.invalid/harbour.git")

    def run(data: bytes | None, *options: str, slug: str = "harbour", file: str = "") -> Said:
        path = tmp_path / "chat.jsonl"
        if data is not None:
            path.write_bytes(data)
        if file == "-":
            monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data or b"")))
        return manage("import_session", slug, file or str(path), *options)

    return run


def jsonl(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def contents() -> list[str]:
    return list(SessionEvent.objects.order_by("session_id", "sequence").values_list("content", flat=True))


def test_a_file_is_imported_and_importing_it_again_adds_nothing(run: Run) -> None:
    first, second = run(jsonl(*TALK)), run(jsonl(*TALK))
    assert (first.code, first.err) == (second.code, second.err) == (0, "")
    assert first.out.strip() == "harbour: 3 events added, 0 already there, in 1 session"
    assert second.out.strip() == "harbour: 0 events added, 3 already there, in 1 session"
    session = Session.objects.get()
    assert (session.key, session.title, session.event_count, session.message_count) == ("s-1", "Pilot booking", 3, 2)
    assert SessionEvent.objects.get(key="e2").payload == {"tool": "grep"}


def test_json_counts_for_programs(run: Run) -> None:
    said = run(jsonl(*TALK, {**TALK[0], "content": "Else"}), "--json", file="-")
    assert said.code == 0
    found = json.loads(said.out)
    (problem,) = found.pop("problems")
    assert problem["line"] == 4
    assert found == {"sessions": 1, "created": 3, "repeated": 0, "conflicts": 1, "refused": 0, "waiting": None}


def test_a_conflict_is_told_and_the_first_event_stands(run: Run) -> None:
    said = run(jsonl(TALK[0], {**TALK[0], "content": "Else"}))
    assert (said.code, contents()) == (0, ["Why a phone line?"])
    assert "Line 2: The id e1 of session s-1 is taken" in said.err


def test_broken_lines_are_told_with_their_numbers_and_the_exit_code_is_1(run: Run) -> None:
    said = run(jsonl(TALK[0]) + b"{broken}\n" + jsonl(TALK[1], {"session": "s-1", "content": "x"}, TALK[2]))
    assert (said.code, len(contents())) == (1, 3)
    lines = said.err.strip().splitlines()
    assert lines[0].startswith("Line 2: The line is not valid JSON")
    assert lines[1] == "Line 4: type is missing."
    assert lines[2] == "Error: 2 lines were refused; all others are stored."


def test_many_broken_lines_do_not_flood_the_terminal(run: Run) -> None:
    said = run(b"{broken}\n" * 500)
    lines = said.err.strip().splitlines()
    assert (said.code, len(lines)) == (1, import_session.SHOWN_PROBLEMS + 2)
    assert lines[-2] == "… and 480 more lines"


def test_a_half_written_last_line_is_no_failure_and_comes_with_the_next_import(run: Run) -> None:
    whole = jsonl(*TALK)
    said = run(whole[:-25])
    assert (said.code, len(contents())) == (0, 2)
    assert said.err.strip() == "Line 3 is not written to its end yet: import the file again when it is."
    again = run(whole)
    assert (again.code, again.err, len(contents())) == (0, "", 3)


def test_a_line_cut_inside_a_character_waits_too(run: Run) -> None:
    line = '{"session": "s-1", "type": "chat.message", "content": "у причала"}'.encode()
    assert run(line[:-7]).code == 0
    assert run(line).code == 0
    assert contents() == ["у причала"]


def test_half_a_surrogate_pair_and_nul_are_replaced_and_nothing_else_is_lost(run: Run) -> None:
    events = [
        {"session": "s-1", "id": "e1", "type": "chat.message", "content": "good one"},
        {"session": "s-1", "id": "e2", "type": "tool.result", "content": "cut emoji \ud83d here \x00"},
        {"session": "s-1", "id": "e3", "type": "chat.message", "content": "also good"},
    ]
    assert run(jsonl(*events)).code == 0
    assert contents() == ["good one", "cut emoji \ufffd here \ufffd", "also good"]


def test_continued_sessions_repeat_old_events_in_one_session_or_in_another(run: Run) -> None:
    run(jsonl(*TALK))
    resumed = [{**event, "session": "s-2"} for event in TALK]
    said = run(jsonl(*TALK, *resumed, *resumed))
    assert "3 events added, 6 already there" in said.out
    assert sorted(Session.objects.values_list("key", "event_count")) == [("s-1", 3), ("s-2", 3)]


def test_control_characters_of_a_file_do_not_reach_the_terminal(run: Run) -> None:
    said = run(jsonl(*({"session": "s-1", "id": "\x1b[2J", "type": "x", "content": content} for content in "ab")))
    assert said.code == 1 and "\x1b" not in said.err
    # An id may hold what turns the line round, and is quoted when it is taken.
    said = run(jsonl(*({"session": "s-1", "id": "\u202ee", "type": "x", "content": content} for content in "ab")))
    assert "\u202e" not in said.err and r"\u202e" in said.err


def test_a_line_beyond_the_limit_is_refused_by_its_number(run: Run) -> None:
    said = run(b'{"x": "' + b"x" * LONGEST_LINE + b'"}\n' + jsonl(TALK[0]))
    assert (said.code, contents()) == (1, ["Why a phone line?"])
    assert "Line 1: The line is longer than 16 MiB." in said.err


@pytest.mark.parametrize("name", ["none.jsonl", "folder"])
def test_a_file_that_cannot_be_read_is_one_line(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    said = run(None, file=str(tmp_path / name))
    assert (said.code, said.out) == (1, "")
    assert len(said.err.strip().splitlines()) == 1
    assert name in said.err


def test_an_unknown_project_is_one_line(run: Run) -> None:
    said = run(jsonl(*TALK), slug="nowhere")
    assert (said.code, said.out) == (1, "")
    assert "nowhere" in said.err
    assert not SessionEvent.objects.exists()


def test_an_empty_file_is_nothing_to_do(run: Run) -> None:
    said = run(b"")
    assert (said.code, said.err) == (0, "")


def test_without_a_file_it_is_a_usage_error(manage: Manage) -> None:
    assert manage("import_session", "harbour").code == 2
