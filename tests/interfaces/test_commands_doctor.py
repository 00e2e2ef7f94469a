"""``manage.py doctor``: what people and programs read of it, whatever is down."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from rag.indexing import reindex
from rag.models import Chunk, Project
from tests.conftest import MakeProject
from tests.interfaces.commands import Manage, Run, program
from tests.ollama_server import OllamaServer


@pytest.fixture
def run(manage: Manage) -> Run:
    """Run ``doctor``."""
    return partial(manage, "doctor")


@pytest.fixture(autouse=True)
def rows_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests rolled back lies dead in the same tables, and is no fault of theirs."""
    monkeypatch.setattr("rag.doctor.upkeep.FEWEST_DEAD", 100_000_000)


@pytest.fixture
def harbour(project: MakeProject, ollama: OllamaServer) -> Project:
    made = project({"docs/a.md": "# Moorings\n\nA berth needs a pilot.\n"}, slug="harbour")
    reindex(project=made)
    return made


@pytest.mark.django_db
def test_all_is_well_and_says_so_in_a_line_each(harbour: Project, run: Run) -> None:
    said = run()
    assert (said.code, said.err) == (0, "")
    *lines, last = said.out.splitlines()
    assert last == "All is well."
    assert all(line.startswith("ok ") for line in lines)


@pytest.mark.django_db
def test_a_warning_has_its_remedy_below_and_is_no_failure(harbour: Project, run: Run) -> None:
    Chunk.objects.update(embedding=None, embedding_model="")
    said = run("harbour")
    assert said.code == 0
    warned, remedy = said.out.splitlines()[[line[:7] for line in said.out.splitlines()].index("warning") :][:2]
    assert "1 of 1 chunks have no vector" in warned
    assert remedy.strip() == "→ manage.py reindex harbour"
    assert said.out.splitlines()[-1] == "0 errors, 1 warning."


@pytest.mark.django_db
def test_an_error_is_exit_code_1_and_nothing_on_stderr(harbour: Project, ollama: OllamaServer, run: Run) -> None:
    ollama.stop()
    said = run()
    assert (said.code, said.err) == (1, "")
    assert said.out.splitlines()[-1] == "1 error, 0 warnings."
    found = json.loads(run("--json").out)
    assert found["healthy"] is False
    assert found["summary"] == {"ok": found["summary"]["ok"], "warning": 0, "error": 1}
    (problem,) = [finding for finding in found["findings"] if finding["severity"] == "error"]
    assert problem["check"] == "embedding" and "ollama serve" in problem["remedy"]


@pytest.mark.django_db
def test_an_unknown_project_is_one_line(run: Run) -> None:
    said = run("nobody")
    assert (said.code, said.out) == (1, "")
    assert "There is no project 'nobody'" in said.err and said.err.count("\n") == 1


def test_without_a_database_it_says_so_and_looks_at_the_rest(tmp_path: Path) -> None:
    away = "postgresql://ada:opensesame@127.0.0.1:9/knowledge"
    said = program("doctor", DATABASE_URL=away, RAG_DATA_DIR=str(tmp_path))
    assert said.code == 1
    assert said.err == ""
    assert said.out.startswith("error   database      The database is out of reach")
    assert "opensesame" not in said.out
    assert "data folder" in said.out
    assert "Traceback" not in said.out


@pytest.fixture
def empty_database(db: None) -> Iterator[str]:
    """The URL of a database without tables."""
    here = connection.get_connection_params()
    where = {key: here[key] for key in ("host", "port", "user")}
    name = f"doctor_{uuid.uuid4().hex}"
    with psycopg.connect(dbname="postgres", autocommit=True, **where) as maker:
        maker.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        try:
            yield f"postgresql://{here['user']}@:{here['port']}/{name}?host={here['host']}"
        finally:
            maker.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_with_an_empty_database_it_asks_for_the_migrations(empty_database: str, tmp_path: Path) -> None:
    said = program("doctor", "harbour", "--json", DATABASE_URL=empty_database, RAG_DATA_DIR=str(tmp_path))
    assert said.code == 1
    assert said.err == ""
    findings = {finding["check"]: finding for finding in json.loads(said.out)["findings"]}
    assert findings["database"]["severity"] == "ok"
    assert findings["migrations"]["remedy"] == "manage.py migrate"
    assert findings.keys().isdisjoint(("indexes", "plans", "vectors"))


def test_the_help_shows_an_example(run: Run) -> None:
    said = run("--help")
    assert said.code == 0
    assert "manage.py doctor harbour --json" in said.out
