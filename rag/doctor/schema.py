"""The schema: migrations, the cache table, and indexes that are there, valid, and of the kind the queries need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Index, Model, UniqueConstraint

from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.indexing.vector_index import is_being_built
from rag.models.chunks import COSINE_OPCLASS, VECTOR_INDEX

WORD_INDEX, POSTING_INDEX = "rag_chunk_search_vector", "rag_posting_once"
#: What to do while the vector index is being built.
WAIT = "Wait for the reindex to end."


def migrations(subject: Subject) -> Iterator[Finding]:
    """Migrations that were not run, or that this version does not know."""
    executor = MigrationExecutor(connections[subject.using])
    loader = executor.loader
    missing = [f"{step.app_label}.{step.name}" for step, _ in executor.migration_plan(loader.graph.leaf_nodes())]
    unknown = sorted(
        f"{app}.{name}"
        for app, name in loader.applied_migrations
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    )
    replaced = {key for step in loader.disk_migrations.values() for key in step.replaces}
    unknown = [name for name in unknown if tuple(name.split(".", 1)) not in replaced]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        yield error("migrations", f"Not applied yet: {shown}.", "manage.py migrate")
    if unknown:
        message = f"The database was migrated by another version of the product: {', '.join(unknown[:5])}."
        yield warning("migrations", message, "Run the newer version, or restore a backup of this one.")
    if not missing and not unknown:
        yield ok("migrations", "All migrations are applied.")


def cache_table(subject: Subject) -> Iterator[Finding]:
    """The table in which throttles count."""
    cache = settings.CACHES.get("default", {})
    table = str(cache.get("LOCATION", ""))
    if not str(cache.get("BACKEND", "")).endswith("DatabaseCache"):
        yield ok("cache", f"Throttles count in {cache.get('BACKEND', 'no cache')}.")
    elif subject.rows("SELECT to_regclass(%s) IS NOT NULL", [table]) == [(True,)]:
        yield ok("cache", f"The cache table {table} is there.")
    else:
        message = f"The cache table {table} is missing: every request that is throttled fails."
        yield error("cache", message, "manage.py createcachetable")


def indexes(subject: Subject) -> Iterator[Finding]:
    """Every index and unique constraint of the models, valid; the vector index of the operator the query orders by."""
    rows = subject.rows(
        "SELECT c.relname, i.indisvalid, (SELECT o.opcname FROM pg_opclass o WHERE o.oid = i.indclass[0])"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE pg_table_is_visible(c.oid)"
    )
    known = {str(name): (bool(valid), str(opclass)) for name, valid, opclass in rows}
    bad = 0
    for model, name in _expected():
        if name == VECTOR_INDEX and not known.get(name, (False,))[0] and is_being_built(using=subject.using):
            message = f"The index {name} is being built after a large load; until then searches are exact."
            yield warning("indexes", message, WAIT)
        elif name not in known:
            message = f"The index {name} on {model._meta.db_table} is missing."
            yield error("indexes", message, create_statement(model, name, using=subject.using))
        elif not known[name][0]:
            yield error("indexes", f"The index {name} is not valid: its build failed.", f"REINDEX INDEX {name};")
        elif name == VECTOR_INDEX and known[name][1] != COSINE_OPCLASS:
            message = f"The index {name} is of {known[name][1]}, but vectors are compared by cosine: it is never used."
            remedy = f"DROP INDEX {name}; {create_statement(model, name, using=subject.using)}"
            yield error("indexes", message, remedy)
        else:
            continue
        bad += 1
    if not bad:
        yield ok("indexes", "Every index is there and valid.")


def create_statement(model: type[Model], name: str, *, using: str) -> str:
    """The SQL that makes an index or constraint of a model, as the migrations would."""
    editor = connections[using].schema_editor(collect_sql=True)
    for index in model._meta.indexes:
        if index.name == name:
            return f"{index.create_sql(model, editor)};".replace("%%", "%")
    for constraint in model._meta.constraints:
        if constraint.name == name:
            return f"{constraint.create_sql(model, editor)};"
    return "manage.py migrate"


def _expected() -> Iterator[tuple[type[Model], str]]:
    for model in apps.get_app_config("rag").get_models():
        found: list[Any] = [*model._meta.indexes, *model._meta.constraints]
        yield from (
            (model, str(one.name))
            for one in found
            if isinstance(one, Index) or (isinstance(one, UniqueConstraint) and not one.condition)
        )


CHECKS = (
    Check("migrations", Needs.DATABASE, migrations),
    Check("cache", Needs.TABLES, cache_table),
    Check("indexes", Needs.TABLES, indexes),
)
