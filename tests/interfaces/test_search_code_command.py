"""``manage.py search_code``: the code alone, one hit a symbol; otherwise as ``search``."""

from __future__ import annotations

import json
from functools import partial

import pytest

from rag.indexing import reindex
from rag.models import Project, ProjectState
from rag.search import answer_json, search_code
from tests.conftest import MakeProject
from tests.interfaces.commands import Manage, Run, assert_one_line
from tests.interfaces.contract import assert_conforms
from tests.interfaces.test_cli_search import LIMITS, answered

FILES = {
    "README.md": "# Quay\n\nWhere run_git is described.\n",
    "src/git.py": 'def run_git(arguments):\n    """Run the program."""\n    return arguments\n',
    "src/quay.py": 'class Quay:\n    """Where ships lie."""\n\n    def moor(self, ship):\n        return ship\n',
    "lib/quay.go": "package quay\n\n// Moor ties a ship up.\nfunc Moor(ship string) string {\n\treturn ship\n}\n",
}


@pytest.fixture
def run(manage: Manage) -> Run:
    """Run ``search_code``."""
    return partial(manage, "search_code")


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    """A project whose code is indexed."""
    made = project(FILES)
    reindex(project=made)
    return made


def test_the_json_is_the_services_answer(indexed: Project, run: Run) -> None:
    assert_conforms(json.loads(run("demo", "run_git", "--json").out), "SearchAnswer")
    expected = answer_json(search_code(project=indexed, query="moor a ship", k=2, path_prefix="src/"))
    del expected["tookMs"]
    assert answered(run("demo", "moor a ship", "-k", "2", "--path", "src/", "--json")) == expected


def test_a_hit_is_printed_with_its_line_symbol_scores_and_code(indexed: Project, run: Run) -> None:
    said = run("demo", "moor", "--path", "src/", "-k", "1")
    assert (said.code, said.err) == (0, "") and "\x1b" not in said.out
    note, citation, symbol, scores, *passage = said.out.splitlines()
    assert note.startswith("Lexical search only: ")
    assert citation.startswith("1. src/quay.py:") and citation.endswith("  [code]")
    assert symbol == "   Quay.moor"
    assert "(vector none, lexical " in scores
    assert "def moor(self, ship):" in passage[0] + passage[-2]


def test_only_code_is_searched_and_the_path_narrows_it(indexed: Project, run: Run) -> None:
    def paths(*arguments: str) -> set[str]:
        return {hit["origin"]["sourcePath"] for hit in answered(run("demo", *arguments, "--json"))["hits"]}

    assert paths("run_git") == {"src/git.py"}
    assert paths("moor") == {"src/quay.py", "lib/quay.go"}
    assert paths("moor", "--path", "lib/") == {"lib/quay.go"}
    assert run("demo", "zyzzyva").out.endswith("No passage answers this.\n")


@pytest.mark.parametrize("k", LIMITS, ids=lambda text: text[:8] or "empty")
def test_a_k_that_is_no_whole_number_of_the_range_is_a_usage_error_with_the_range(k: str, run: Run) -> None:
    assert_one_line(run("demo", "quay", "-k", k), 2, "-k", "whole number from 1 to 50")


def test_a_wrong_call_is_a_usage_error(run: Run) -> None:
    assert_one_line(run(), 2, "SLUG")
    assert_one_line(run("demo"), 2, "QUERY")
    assert_one_line(run("demo", "quay", "--scope", "docs"), 2, "--scope")
    assert_one_line(run("demo", "caf\udce9"), 2, r"caf\xe9", "not valid UTF-8")


def test_what_is_refused_is_one_line(project: MakeProject, run: Run) -> None:
    assert_one_line(run("demo", "quay"), 1, "There is no project 'demo'")
    project({})
    assert_one_line(run("demo", " "), 1, "query", "blank")
    assert_one_line(run("demo", "x" * 2001), 1, "query", "2000")
    Project.objects.update(state=ProjectState.PAUSED)
    assert_one_line(run("demo", "quay"), 1, "paused")


def test_the_help_shows_an_example(run: Run) -> None:
    said = run("--help")
    assert said.code == 0 and "manage.py search_code harbour runGit -k 3" in said.out
