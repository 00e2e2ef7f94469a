"""``doctor``: each planted fault is found, and its remedy mends it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connection, connections
from psycopg import sql

from rag.conf import conf
from rag.core.errors import NotFound
from rag.doctor import (
    Finding,
    Severity,
    checkup,
    examine,
    installation,
    plans,
    recall,
    replica,
    report_json,
    repositories,
    runs,
    schema,
    server,
    text_search,
    upkeep,
    workers,
)
from rag.doctor import embedding as provider_check
from rag.doctor import vectors as vectors_check
from rag.doctor.findings import Check, Needs, Subject, ok
from rag.indexing import reindex
from rag.indexing.lock import ProjectLock
from rag.models import Chunk, EmbeddingFailure, IndexRun, Project, RunState
from tests.conftest import MakeProject
from tests.fakes import index_chunks
from tests.ollama_server import OllamaServer, Reply, always

pytestmark = pytest.mark.django_db

FILES = {
    "docs/refunds.md": "# Refunds\n\nA refund is issued within three days.\n",
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nRounding lost cents.\n",
    "src/toll.py": "def compute_toll(length, nights):\n    return int(length * 120) * nights\n",
}


@pytest.fixture(autouse=True)
def rows_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests rolled back lies dead in the same tables, and is no fault of theirs."""
    monkeypatch.setattr("rag.doctor.upkeep.FEWEST_DEAD", 100_000_000)


@pytest.fixture
def harbour(project: MakeProject, ollama: OllamaServer) -> Project:
    made = project(FILES, slug="harbour")
    reindex(project=made)
    return made


def subject(*projects: Project, using: str = "default") -> Subject:
    return Subject(settings=conf(), projects=projects, using=using)


def bad(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is not Severity.OK]


def one(findings: Iterable[Finding], severity: Severity, *words: str) -> Finding:
    """The only finding that is not ok."""
    (found,) = bad(findings)
    assert found.severity is severity, found
    assert found.remedy
    for word in words:
        assert word in f"{found.message} {found.remedy}", found
    return found


def run_sql(statement: str, parameters: list[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_a_fresh_index(harbour: Project) -> None:
    findings = examine()
    assert bad(findings) == []
    names = {finding.check for finding in findings}
    assert names >= {"database", "postgresql", "pgvector", "migrations", "indexes", "plans", "recall", "embedding"}
    assert names >= {"text search", "repository", "vectors", "runs", "workers", "settings", "data folder"}


def test_one_project_can_be_looked_at_alone(harbour: Project, project: MakeProject) -> None:
    project(FILES, slug="other", name="other")
    assert {finding.project for finding in examine(project="harbour")} == {"", "harbour"}
    assert {finding.project for finding in bad(examine())} == {"other"}
    with pytest.raises(NotFound):
        examine(project="nobody")


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(
    harbour: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(subject: Subject) -> Iterator[Finding]:
        yield ok("breaks", "This much was seen.")
        raise ValueError("deep down")

    monkeypatch.setattr(checkup, "STATEMENT_TIMEOUT", 50)
    checks = [
        Check("slow", Needs.DATABASE, lambda subject: subject.rows("SELECT pg_sleep(5)") and []),
        Check("old", Needs.DATABASE, lambda subject: subject.rows("SELECT * FROM rag_unheard_of") and []),
        Check("writes", Needs.DATABASE, lambda subject: subject.rows("DELETE FROM rag_chunk RETURNING 1") and []),
        Check("breaks", Needs.NOTHING, breaks),
        Check("last", Needs.TABLES, lambda subject: [ok("last", "Reached.")]),
    ]
    _, slow, old, writes, seen, broken, last = examine(checks=checks)
    assert (slow.severity, slow.message[:11]) == (Severity.WARNING, "Given up af")
    assert (old.severity, old.remedy) == (Severity.ERROR, "manage.py migrate")
    assert "read-only transaction" in writes.message
    assert (seen.severity, broken.severity, last.severity) == (Severity.OK, Severity.WARNING, Severity.OK)
    assert "ValueError: deep down" in broken.message
    assert Chunk.objects.exists()


def test_a_database_out_of_reach_is_the_only_thing_said_of_it(
    harbour: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Finding("database", Severity.ERROR, "The database is out of reach.", "Start it.")
    monkeypatch.setattr(checkup, "reach", lambda using: away)
    findings = examine()
    assert findings[0] == away
    assert {finding.check for finding in findings[1:]} == {"embedding", "settings", "django", "data folder"}


def test_the_json_counts_and_names_the_remedies(harbour: Project) -> None:
    Chunk.objects.update(embedding=None, embedding_model="")
    found = report_json(examine())
    assert found["healthy"] is True
    assert found["summary"]["warning"] == 1
    (warned,) = [finding for finding in found["findings"] if finding["severity"] == "warning"]
    assert warned["remedy"] == "manage.py reindex harbour" and warned["project"] == "harbour"


# ---- the server and the schema --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "available", "severity", "says"),
    [
        (None, "0.8.6", Severity.ERROR, "CREATE EXTENSION"),
        ("0.7.4", "0.7.4", Severity.ERROR, "iterative scan"),
        ("0.8.3", "0.8.3", Severity.WARNING, "before 0.8.4"),
        ("0.8.4", "0.8.6", Severity.WARNING, "ALTER EXTENSION vector UPDATE;"),
        ("0.10", "0.10", Severity.OK, "pgvector 0.10"),
    ],
)
def test_what_a_version_of_pgvector_means(installed: str | None, available: str, severity: Severity, says: str) -> None:
    (found,) = server.pgvector(installed, available)
    assert found.severity is severity
    assert says in f"{found.message} {found.remedy}"


@pytest.mark.parametrize("name", ["rag_chunk_embedding", "rag_chunk_search_vector", "rag_chunk_embedding_hash"])
def test_a_missing_index_is_made_again_by_the_remedy(name: str) -> None:
    run_sql(f"DROP INDEX {name}")
    found = one(schema.indexes(subject()), Severity.ERROR, name, "CREATE INDEX")
    run_sql(found.remedy)
    assert bad(schema.indexes(subject())) == []


def test_an_index_of_another_operator_is_made_again_by_the_remedy() -> None:
    run_sql("DROP INDEX rag_chunk_embedding")
    run_sql("CREATE INDEX rag_chunk_embedding ON rag_chunk USING hnsw (embedding vector_l2_ops)")
    found = one(schema.indexes(subject()), Severity.ERROR, "vector_l2_ops")
    one(plans.vector_plan(subject()), Severity.ERROR, "cannot use the index")
    run_sql(found.remedy)
    assert bad(schema.indexes(subject())) == bad(plans.vector_plan(subject())) == []


def test_a_missing_constraint_is_made_again_by_the_remedy() -> None:
    run_sql("ALTER TABLE rag_posting DROP CONSTRAINT rag_posting_once")
    found = one(schema.indexes(subject()), Severity.ERROR, "rag_posting_once")
    run_sql(found.remedy)
    assert bad(schema.indexes(subject())) == []


def test_a_migration_that_was_not_run_and_one_that_is_unknown() -> None:
    run_sql("DELETE FROM django_migrations WHERE app = 'rag' AND name > '0004'")
    found = bad(schema.migrations(subject()))
    assert found[0].severity is Severity.ERROR and "rag.0004" in found[0].message
    assert found[0].remedy == "manage.py migrate"
    run_sql("INSERT INTO django_migrations (app, name, applied) VALUES ('rag', '0999_from_the_future', now())")
    assert any("0999_from_the_future" in finding.message for finding in bad(schema.migrations(subject())))


def test_a_missing_cache_table() -> None:
    assert bad(schema.cache_table(subject())) == []
    run_sql("DROP TABLE rag_cache")
    one(schema.cache_table(subject()), Severity.ERROR, "createcachetable")


# ---- words ----------------------------------------------------------------------------------------------------------


def test_a_missing_configuration_is_made_again_by_the_remedy() -> None:
    assert bad(text_search.configurations(subject())) == []
    run_sql("ALTER TEXT SEARCH CONFIGURATION rag_german RENAME TO elsewhere")
    found = one(text_search.configurations(subject()), Severity.ERROR, "rag_german is missing")
    run_sql(found.remedy)
    assert bad(text_search.configurations(subject())) == []


def test_a_configuration_without_accent_folding_is_mended_by_the_remedy() -> None:
    run_sql("ALTER TEXT SEARCH CONFIGURATION rag_english ALTER MAPPING FOR word WITH english_stem")
    found = one(text_search.configurations(subject()), Severity.ERROR, "café from cafe")
    run_sql(found.remedy.partition("Then:")[0])
    assert bad(text_search.configurations(subject())) == []


@contextmanager
def other_database(alias: str, **changed: Any) -> Iterator[str]:
    """An alias for the test's database with some of its settings changed."""
    made = connections.create_connection("default")
    made.settings_dict = {**made.settings_dict, **changed}
    connections[alias] = made
    try:
        yield alias
    finally:
        made.close()
        del connections[alias]


@pytest.fixture
def c_locale() -> Iterator[str]:
    """The alias of an empty database whose locale folds no case beyond ASCII."""
    here = connection.get_connection_params()
    where = {key: here[key] for key in ("host", "port", "user")}
    name = f"doctor_{uuid.uuid4().hex}"
    quoted = sql.Identifier(name)
    with psycopg.connect(dbname="postgres", autocommit=True, **where) as maker:
        locale = sql.SQL("CREATE DATABASE {} LOCALE_PROVIDER libc LOCALE 'C' ENCODING 'UTF8' TEMPLATE template0")
        maker.execute(locale.format(quoted))
        try:
            with other_database("c", NAME=name) as alias:
                yield alias
        finally:
            maker.execute(sql.SQL("DROP DATABASE {}").format(quoted))


def test_a_locale_that_folds_no_case_is_warned_of_and_does_not_harm_the_search(c_locale: str) -> None:
    assert bad(text_search.locale(subject())) == []
    one(text_search.locale(subject(using=c_locale)), Severity.WARNING, "(C, libc)", "Searches are not affected")
    with connections[c_locale].cursor() as cursor:
        cursor.execute("CREATE EXTENSION unaccent")
        for finding in bad(text_search.configurations(subject(using=c_locale))):
            cursor.execute(finding.remedy)
    assert bad(text_search.configurations(subject(using=c_locale))) == []


# ---- plans and recall -----------------------------------------------------------------------------------------------


def test_the_queries_of_the_search_can_use_their_indexes(harbour: Project) -> None:
    for check in plans.CHECKS:
        (found,) = check.look(subject(harbour))
        assert found.severity is Severity.OK
        assert "rag_" in found.message


@pytest.mark.parametrize(
    ("drop", "look", "index"),
    [
        ("DROP INDEX rag_chunk_embedding", plans.vector_plan, "rag_chunk_embedding"),
        ("DROP INDEX rag_chunk_search_vector", plans.word_plan, "rag_chunk_search_vector"),
        ("ALTER TABLE rag_posting DROP CONSTRAINT rag_posting_once", plans.posting_plan, "rag_posting_once"),
    ],
)
def test_a_query_whose_index_is_gone(harbour: Project, drop: str, look: Any, index: str) -> None:
    run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    run_sql(drop)
    one(look(subject(harbour)), Severity.ERROR, "cannot use", index)


def test_plans_are_made_of_an_empty_index_too() -> None:
    for check in plans.CHECKS:
        assert bad(check.look(subject())) == []


def test_low_recall_of_the_approximate_index_is_found(project: MakeProject, settings: Any) -> None:
    made = project(FILES)
    vectors = iter(np.random.default_rng(7).standard_normal((120, 768)).astype(np.float32))
    texts = {f"docs/{number:03}.md": f"Text number {number}.\n" for number in range(120)}
    index_chunks(made, texts, model="ollama/noise", embed=lambda text: next(vectors))
    run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    run_sql("REINDEX INDEX rag_chunk_embedding")  # without what other tests left in the graph
    assert bad(recall.recall(subject(made))) == []
    run_sql("DROP INDEX rag_chunk_embedding")
    run_sql(
        "CREATE INDEX rag_chunk_embedding ON rag_chunk USING hnsw (embedding vector_cosine_ops)"
        " WITH (m = 2, ef_construction = 4)"
    )
    settings.RAG_HNSW_EF_SEARCH = 10
    one(recall.recall(subject(made)), Severity.WARNING, "recall@10", "RAG_HNSW_EF_SEARCH=20", "exact as long as")
    settings.RAG_EXACT_SCAN_ROWS = 100
    one(recall.recall(subject(made)), Severity.ERROR, "should be at least 0.98")


# ---- upkeep ---------------------------------------------------------------------------------------------------------


def test_upkeep_is_calm_and_does_without_an_extension() -> None:
    assert bad(upkeep.autovacuum(subject())) == []
    assert list(upkeep.pending_list(subject())) == []


# ---- the provider ---------------------------------------------------------------------------------------------------


def test_a_provider_that_works_is_told_with_its_shape_and_prefixes(ollama: OllamaServer) -> None:
    (found,) = provider_check.provider(subject())
    assert found.severity is Severity.OK
    assert "768 dimensions, norm 1.000" in found.message
    assert "'search_document: ' and 'search_query: '" in found.message


def test_a_provider_that_is_away_or_lacks_the_model_or_answers_another_size(
    ollama: OllamaServer, settings: Any
) -> None:
    ollama.models = ["llama3:latest"]
    one(provider_check.provider(subject()), Severity.ERROR, "ollama pull nomic-embed-text")
    ollama.models = ["nomic-embed-text:latest"]
    settings.RAG_EMBEDDING_MODEL = "nomic-embed-txt"
    one(provider_check.provider(subject()), Severity.ERROR, "ollama pull nomic-embed-txt", "nomic-embed-text meant?")
    settings.RAG_EMBEDDING_MODEL = ""
    ollama.dimensions = 384
    one(provider_check.provider(subject()), Severity.ERROR, "nomic-embed-text", "384", "768")
    ollama.fail(always(Reply(404, b"404 page not found")))
    one(provider_check.provider(subject()), Severity.ERROR, "OLLAMA_BASE_URL")
    ollama.stop()
    one(provider_check.provider(subject()), Severity.ERROR, "ollama serve")
    settings.RAG_EMBEDDING_PROVIDER, settings.RAG_EMBEDDING_MODEL = "openai", ""
    one(provider_check.provider(subject()), Severity.ERROR, "RAG_EMBEDDING_MODEL")


# ---- projects -------------------------------------------------------------------------------------------------------


def test_chunks_without_a_vector_of_the_model_have_their_reasons(harbour: Project) -> None:
    assert bad(vectors_check.vectors(subject(harbour))) == []
    first, second, third = Chunk.objects.order_by("pk")[:3]
    Chunk.objects.filter(pk=first.pk).update(embedding_model="ollama/another")
    Chunk.objects.filter(pk__in=[second.pk, third.pk]).update(embedding=None, embedding_model="")
    model = Chunk.objects.exclude(embedding=None).exclude(pk=first.pk)[0].embedding_model
    failure = {"model": model, "text_hash": third.embedding_hash, "reason": "It breaks the model."}
    EmbeddingFailure.objects.create(project=harbour, **failure)
    other, failed, missing = bad(vectors_check.vectors(subject(harbour)))
    assert "1 of 4 vectors are of ollama/another" in other.message
    assert "It breaks the model." in failed.message and failed.remedy.endswith("--retry-failed")
    assert "1 of 4 chunks have no vector" in missing.message
    assert missing.remedy == f"manage.py reindex {harbour.slug}"
    with ProjectLock(harbour.pk) as lock:
        lock.acquire()
        assert bad(vectors_check.vectors(subject(harbour)))[-1].remedy == "Wait for the reindex that is in progress."
    reindex(project=harbour, retry_failed=True)
    assert bad(vectors_check.vectors(subject(harbour))) == []


def test_a_project_that_was_never_indexed(project: MakeProject) -> None:
    made = project(FILES, slug="harbour")
    one(vectors_check.vectors(subject(made)), Severity.WARNING, "manage.py reindex harbour")


def test_a_repository_that_is_not_accepted_or_gone(harbour: Project, tmp_path: Path, settings: Any) -> None:
    assert bad(repositories.repositories(subject(harbour))) == []
    harbour.ref = "release"
    one(repositories.repositories(subject(harbour)), Severity.ERROR, "release")
    settings.RAG_REPOSITORY_ROOTS = [tmp_path / "elsewhere"]
    one(repositories.repositories(subject(harbour)), Severity.ERROR, "RAG_REPOSITORY_ROOTS")


def test_a_remote_that_is_not_mirrored_yet_is_not_fetched(harbour: Project) -> None:
    harbour.repository = "https://git.example.org/harbour.git"
    one(repositories.repositories(subject(harbour)), Severity.WARNING, "first reindex")


def test_a_mirror_of_nobody(harbour: Project, tmp_path: Path) -> None:
    mirror = tmp_path / "data" / "repositories" / "gone-0123456789ab"
    mirror.mkdir(parents=True)
    found = one(repositories.mirrors(subject(harbour)), Severity.WARNING, "gone-0123456789ab")
    assert found.remedy == f"rm -r {mirror}"


# ---- runs and workers -----------------------------------------------------------------------------------------------


def test_a_run_that_nobody_carries_out(harbour: Project) -> None:
    assert bad(runs.half_done(subject(harbour))) == []
    run = IndexRun.objects.create(project=harbour, state=RunState.RUNNING)
    one(runs.half_done(subject(harbour)), Severity.WARNING, str(run.pk), "manage.py reindex harbour")
    with ProjectLock(harbour.pk) as lock:
        assert lock.acquire()
        assert bad(runs.half_done(subject(harbour))) == []


def test_a_last_run_that_failed(harbour: Project) -> None:
    IndexRun.objects.create(project=harbour, state=RunState.FAILED, error="The repository is out of reach.")
    one(runs.half_done(subject(harbour)), Severity.WARNING, "The repository is out of reach.")


def test_jobs_that_wait_without_a_worker() -> None:
    assert bad(workers.workers(subject())) == []
    run_sql("INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('default', 'reindex')")
    one(workers.workers(subject()), Severity.ERROR, "1 jobs wait", "manage.py procrastinate worker")
    run_sql("INSERT INTO procrastinate_workers DEFAULT VALUES")
    assert bad(workers.workers(subject())) == []
    run_sql("UPDATE procrastinate_events SET at = now() - interval '5 minutes'")
    one(workers.workers(subject()), Severity.WARNING, "for 300 seconds")
    run_sql("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '5 minutes'")
    run_sql("UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT max(id) FROM procrastinate_workers)")
    one(workers.workers(subject()), Severity.WARNING, "workers that died")


# ---- replica --------------------------------------------------------------------------------------------------------


@pytest.fixture
def replica_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where DATABASE_REPLICA_URL is set."""
    monkeypatch.setitem(connections.settings, "replica", connections.settings["default"])


def test_without_a_replica_there_is_nothing_to_say() -> None:
    assert list(replica.replica(subject())) == []


def test_a_replica_that_is_away(replica_setting: None) -> None:
    with other_database("replica", NAME="no_such_database"):
        connections["replica"].get_connection_params = lambda: {"host": "127.0.0.1", "port": 9}  # type: ignore[method-assign]
        one(replica.replica(subject()), Severity.ERROR, "out of reach", "DATABASE_REPLICA_URL")


def test_a_replica_that_follows_nobody(replica_setting: None) -> None:
    with other_database("replica"):
        # The same server under two names is needless, but no fault.
        assert [finding.severity for finding in replica.replica(subject())] == [Severity.OK]
    with other_database("replica", NAME="postgres"):
        one(replica.replica(subject()), Severity.ERROR, "follows another database")


# ---- this process ---------------------------------------------------------------------------------------------------


def test_settings_for_trying_are_warned_of_where_others_are_served(settings: Any, tmp_path: Path) -> None:
    settings.DEBUG = False
    settings.ALLOWED_HOSTS = ["localhost"]
    assert bad(installation.served(subject())) == []
    settings.DEBUG = True
    one(installation.served(subject()), Severity.WARNING, "DJANGO_DEBUG=0")
    settings.DEBUG, settings.ALLOWED_HOSTS, settings.SESSION_COOKIE_SECURE = False, ["*"], True
    one(installation.served(subject()), Severity.WARNING, "DJANGO_ALLOWED_HOSTS")
    settings.ALLOWED_HOSTS, settings.SESSION_COOKIE_SECURE = ["knowledge.example"], False
    one(installation.served(subject()), Severity.WARNING, "DJANGO_BEHIND_HTTPS=1")


def test_the_secret_key_of_this_machine(settings: Any, tmp_path: Path) -> None:
    settings.DEBUG, settings.ALLOWED_HOSTS, settings.SESSION_COOKIE_SECURE = False, ["localhost"], True
    path = tmp_path / "data" / "secret_key"
    path.parent.mkdir()
    path.write_text(django_settings.SECRET_KEY)
    path.chmod(0o644)
    one(installation.served(subject()), Severity.ERROR, f"chmod 600 {path}")
    path.chmod(0o600)
    assert bad(installation.served(subject())) == []
    settings.ALLOWED_HOSTS = ["knowledge.example"]
    one(installation.served(subject()), Severity.WARNING, "DJANGO_SECRET_KEY")


def test_what_djangos_checks_say_is_told(settings: Any) -> None:
    assert bad(installation.system_checks(subject())) == []
    settings.CSRF_TRUSTED_ORIGINS = ["knowledge.example"]
    one(installation.system_checks(subject()), Severity.ERROR, "CSRF_TRUSTED_ORIGINS", "4_0.E001")


def test_a_database_of_an_older_version_is_told_to_be_migrated(harbour: Project) -> None:
    run_sql("SET CONSTRAINTS ALL IMMEDIATE")
    run_sql("ALTER TABLE rag_project DROP COLUMN remote_url")
    problems = [finding for finding in bad(examine()) if finding.check == "database"]
    assert [finding.remedy for finding in problems] == ["manage.py migrate"]


def test_a_data_folder_that_cannot_be_written(settings: Any, tmp_path: Path) -> None:
    assert bad(installation.data_folder(subject())) == []
    settings.RAG_DATA_DIR = Path("/proc") / uuid.uuid4().hex
    one(installation.data_folder(subject()), Severity.ERROR, "cannot be written")
