"""``manage.py search``: its JSON is the REST answer, its text is for people, its failures are one line."""

from __future__ import annotations

import json
import re
import sys
from functools import partial
from typing import Any

import pytest

from rag import eventlog
from rag.indexing import reindex
from rag.models import Project, ProjectState, Role
from tests.conftest import MakeProject
from tests.interfaces.callers import caller, post
from tests.interfaces.commands import Manage, Run, Said, assert_one_line, program
from tests.interfaces.contract import assert_conforms
from tests.ollama_server import OllamaServer

FILES = {
    "docs/harbour.md": "# Harbour\n\n## Mooring\n\nShips moor at the northern quay after sunset.\n",
    "docs/guide/lamps.md": "# Lamps\n\nThe lamps of the quay are lit by the warden.\n",
    "docs/adr/0001-quay.md": "# Use the northern quay\n\nThe southern quay is too shallow for ships.\n",
    "docs/steps.md": "# Steps\n\n" + "\n".join(f"Step {number} of the pilot's list." for number in range(1, 21)) + "\n",
    "docs/escape.md": "# Escape\n\nA \x1b[2Jhidden \u202etrick for the harbourmaster.\n",
    "src/moor.py": 'def moor_ship(ship):\n    """Tie a ship to the quay."""\n    return ship\n',
}
EVENTS = [{"id": "e1", "type": "chat.message", "author": "ada", "content": "May we moor at the southern quay tonight?"}]

#: What is no whole number from 1 to 50, as a shell gives it.
LIMITS = ["-1", "0", "51", "100000", "1" + "0" * 30, "1" + "0" * 5000, "abc", "5.0", "1e3", "NaN", "Infinity", "", " "]


@pytest.fixture
def run(manage: Manage) -> Run:
    """Run ``search``."""
    return partial(manage, "search")


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    """A project with an index of files and a chat."""
    made = project(FILES)
    eventlog.append(project=made, session_key="s1", title="Night shift", events=EVENTS)
    reindex(project=made)
    return made


def answered(said: Said) -> dict[str, Any]:
    """The JSON answer of a command that went well, without what differs from run to run."""
    assert (said.code, said.err) == (0, ""), said
    found: dict[str, Any] = json.loads(said.out)
    assert found.pop("tookMs") >= 0
    return found


# ---- --json ---------------------------------------------------------------------------------------------------------


def test_the_json_is_the_rest_answer(ollama: OllamaServer, indexed: Project, run: Run, admin_client: Any) -> None:
    assert_conforms(json.loads(run("demo", "where do ships moor", "--json").out), "SearchAnswer")
    for arguments, body in (
        (["where do ships moor"], {}),
        (["quay", "--limit", "2"], {"limit": 2}),
        (["quay", "--scope", "adr", "--scope", "session"], {"scopes": ["adr", "session"]}),
        (["quay", "--path", "docs/guide/"], {"pathPrefix": "docs/guide/"}),
        (["quay", "--session", "s1"], {"sessionId": "s1"}),
        (["quay", "--exclude", "warden", "--exclude", "too shallow"], {"exclude": ["warden", "too shallow"]}),
        (["quay", "--fusion", "rrf"], {"fusion": "rrf"}),
        (["moor_ship", "--scope", "code"], {"scopes": ["code"]}),
        (["zyzzyva"], {}),
        (["the of"], {}),
    ):
        asked = {"query": arguments[0], **body}
        rest = admin_client.post("/api/projects/demo/rag/search", json.dumps(asked), content_type="application/json")
        expected = {key: value for key, value in rest.json().items() if key != "tookMs"}
        assert answered(run("demo", *arguments, "--json")) == expected, arguments


def test_the_answers_of_member_and_operator_agree(indexed: Project, run: Run) -> None:
    member = caller("vera", demo=Role.VIEWER)
    theirs = post(member, "/api/projects/demo/rag/search", {"query": "quay"}).json()["hits"]
    assert answered(run("demo", "quay", "--json"))["hits"] == theirs


# ---- for people -----------------------------------------------------------------------------------------------------


def test_a_hit_is_printed_with_citation_trail_scores_and_passage(indexed: Project, run: Run) -> None:
    said = run("demo", "northern quay sunset", "--limit", "1")
    assert said.code == 0 and said.err == ""
    lines = said.out.splitlines()
    assert lines[1] == "1. docs/harbour.md:1  [docs]"
    assert lines[2] == "   Harbour > Mooring"
    assert re.fullmatch(r"   score \d\.\d{3} \(vector none, lexical \d\.\d\d\)", lines[3])
    assert lines[4:] == [f"   {line}" for line in FILES["docs/harbour.md"].rstrip().split("\n")]


def test_a_session_is_cited_by_its_event(indexed: Project, run: Run) -> None:
    out = run("demo", "southern quay tonight", "--scope", "session").out
    assert "1. s1/e1  [session]\n   Night shift\n" in out and "May we moor" in out


def test_a_degraded_answer_says_so_first_and_is_no_failure(indexed: Project, run: Run) -> None:
    reason = answered(run("demo", "quay", "--json"))["vectorUnavailableReason"]
    said = run("demo", "quay")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Lexical search only: {reason}\n1. ")
    assert "Vector search only: " in run("demo", "the of").out


def test_no_hit_is_no_failure(indexed: Project, run: Run) -> None:
    said = run("demo", "zyzzyva")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("\nNo passage answers this.\n")


def test_a_long_passage_is_cut_and_says_by_how_much(indexed: Project, run: Run) -> None:
    out = run("demo", "pilot's list", "--limit", "1").out
    assert "Step 10 of" in out and "Step 11 of" not in out and "… 10 more lines" in out


def test_output_that_is_piped_is_plain(indexed: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = run("demo", "quay harbourmaster trick").out
    assert "\x1b" not in out and "\u202e" not in out
    assert r"A \x1b[2Jhidden \u202etrick" in out, "what a passage holds does not steer the terminal"


def test_a_terminal_gets_colours(indexed: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = run("demo", "quay harbourmaster trick").out
    assert "\x1b[" in out and "\x1b[2J" not in out


# ---- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS, ids=lambda text: text[:8] or "empty")
def test_a_limit_that_is_no_whole_number_of_the_range_is_a_usage_error_with_the_range(limit: str, run: Run) -> None:
    assert_one_line(run("demo", "quay", f"--limit={limit}"), 2, "--limit", "whole number from 1 to 50")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "SLUG"),
        (["demo"], "QUERY"),
        (["demo", "quay", "--scope", "wiki"], "--scope"),
        (["demo", "quay", "--fusion", "sum"], "--fusion"),
        (["demo", "quay", "--limits", "3", "--nothing"], "--nothing"),
        (["demo", "northern", "quay"], "quay"),
    ],
)
def test_a_wrong_call_is_a_usage_error(arguments: list[str], word: str, run: Run) -> None:
    assert_one_line(run(*arguments), 2, word, "--help")


@pytest.mark.parametrize(("query", "word"), [("", "blank"), (" \n", "blank"), ("x" * 2001, "2000"), ("a\0b", "U+0000")])
def test_a_question_that_is_none_is_refused(query: str, word: str, db: None, project: MakeProject, run: Run) -> None:
    project({})
    assert_one_line(run("demo", query), 1, "query", word)


def test_bytes_that_are_no_utf8_are_a_usage_error() -> None:
    """As a shell passes them: search demo "$(printf 'caf\\351')"."""
    assert_one_line(program("search", "demo", b"caf\xe9"), 2, r"caf\xe9", "not valid UTF-8")


def test_an_unknown_project_is_one_line(db: None, run: Run) -> None:
    assert_one_line(run("demo", "quay"), 1, "There is no project 'demo'", "add_project")
    assert_one_line(run("demo", "quay", "--json"), 1, "There is no project 'demo'")


def test_a_project_that_is_not_ready_is_one_line(project: MakeProject, run: Run) -> None:
    project({})
    Project.objects.update(state=ProjectState.PAUSED)
    assert_one_line(run("demo", "quay"), 1, "paused")


def test_the_help_shows_an_example(run: Run) -> None:
    said = run("--help")
    assert said.code == 0
    assert "manage.py search harbour" in said.out
