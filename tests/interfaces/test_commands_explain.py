"""``manage.py explain``: what people and programs read of it."""

from __future__ import annotations

import json
from functools import partial

import pytest

from rag.indexing import reindex
from rag.models import Project
from tests.conftest import MakeProject
from tests.interfaces.commands import Manage, Run

pytestmark = pytest.mark.django_db

FILES = {
    "docs/refunds.md": "# Refunds\n\nA refund is issued within three days after the skipper returns the berth.\n",
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "src/toll.py": "def compute_toll(length, nights):\n    return int(length * 120) * nights\n",
}


@pytest.fixture
def run(manage: Manage) -> Run:
    """Run ``explain``."""
    return partial(manage, "explain")


@pytest.fixture
def harbour(project: MakeProject) -> Project:
    made = project(FILES, slug="harbour")
    reindex(project=made)
    return made


def test_the_cause_comes_first_then_what_to_do_then_what_was_answered(harbour: Project, run: Run) -> None:
    said = run("harbour", "compute refund berth", "--path", "src/toll.py")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "src/toll.py  not answered: other scope"
    assert "It is in the scope code" in lines[1]
    assert lines[2] == "   → Search with --scope code."
    assert "1. docs/refunds.md:1  score" in said.out


def test_an_answered_passage_is_told_with_its_ranks(harbour: Project, run: Run) -> None:
    said = run("harbour", "refund berth", "--path", "docs/refunds.md", "--line", "3")
    assert said.out.startswith("docs/refunds.md:3  answered\n   It is hit 1 of 1.\n")
    assert "lexical 1.000 (rank 1 of 2)" in said.out or "(rank 1 of 2); answered" in said.out


def test_json_is_the_explanation(harbour: Project, run: Run) -> None:
    found = json.loads(run("harbour", "toll", "--symbol", "src/toll.py#compute_toll", "--json").out)
    assert (found["cause"], found["place"]) == ("answered", 1)
    assert found["search"]["scopes"] == ["code"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("harbour", "toll"), 2, "Name one passage"),
        (("harbour", "toll", "--path", "a", "--line", "0"), 2, "from 1 to"),
        (("harbour", "toll", "--chunk", "x"), 2, "by its id"),
        (("harbour", " ", "--path", "a"), 1, "query is blank"),
        (("nobody", "toll", "--path", "a"), 1, "There is no project"),
        (("harbour", "toll", "--chunk", "00000000-0000-0000-0000-000000000000"), 1, "no such chunk"),
    ],
)
def test_a_failure_is_one_line(harbour: Project, run: Run, arguments: tuple[str, ...], code: int, says: str) -> None:
    said = run(*arguments)
    assert said.code == code
    assert said.out == ""
    assert says in said.err and said.err.count("\n") == 1


def test_the_help_shows_an_example(run: Run) -> None:
    assert "manage.py explain harbour" in run("--help").out
