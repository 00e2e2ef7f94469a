"""After a run: expiring retired chunks, and leaving the tables in good order."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from rag.conf import conf
from rag.models import IndexRun, Project, RetiredChunk, RunState

logger = logging.getLogger(__name__)

#: Created and deleted chunks from which tables are put in order at once instead of by autovacuum, which waits longer.
LARGE_CHANGE = 5000
#: Changed chunks from which the planner's statistics are refreshed: as a share of the table, and at least so many.
STALE_SHARE, STALE_CHANGE = 0.02, 500
#: Deleted chunks, as a share of the table, from which it is vacuumed at once: until then every search walks over the
#: dead elements of the vector graph. Autovacuum waits for a fifth.
DEAD_SHARE = 0.1

#: Columns that plans depend on: statistics of texts and vectors take longer than those of all others.
PLANNED = (
    *("id", "project_id", "scope", "ordinal", "file_id", "session_id", "language", "search_vector"),
    *("embedding_model", "embedding_hash", "origin_key", "symbol"),
)

_SIZE = "SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = 'rag_chunk'::regclass"


def tidy(*, project: Project, run: IndexRun) -> None:
    """Leave things in order after a run that succeeded; what fails here changes nothing that counts."""
    if run.state != RunState.SUCCEEDED:
        return
    scopes = run.report.get("scopes", {}).values()
    created = sum(scope["created"] for scope in scopes)
    deleted = sum(scope["deleted"] for scope in scopes)
    embedded = run.report.get("embedding", {}).get("embedded", 0)
    try:
        _expire_retired(project)
        if not connection.in_atomic_block and (created or deleted or embedded):
            _put_in_order(changed=created + deleted, dead=deleted, embedded=embedded)
    except (DatabaseError, InterfaceError):
        # The connection was lost, or the tables are another owner's; the next run and autovacuum do the same later.
        logger.info("The tables could not be put in order after the run %s", run.pk, exc_info=True)
        if not connection.in_atomic_block and not connection.is_usable():
            connection.close()  # whoever called gets a new one


def _expire_retired(project: Project) -> None:
    cutoff = timezone.now() - timedelta(days=conf().retired_days)
    # In one statement: nothing refers to them.
    expired = RetiredChunk.objects.filter(project=project, retired_at__lt=cutoff)
    expired._raw_delete(expired.db)


def _put_in_order(*, changed: int, dead: int, embedded: int) -> None:
    with connection.cursor() as cursor:
        # What a bulk insert leaves in GIN's pending list would be read by every search until it is merged.
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_search_vector')")
        cursor.execute(_SIZE)
        (size,) = cursor.fetchone()
        # The table is locked while another run builds the vector index. That waits for an ANALYZE which waits for it: a
        # deadlock, and the build begins again. So both are skipped then, and left to autovacuum.
        if dead >= LARGE_CHANGE and dead >= DEAD_SHARE * size:
            cursor.execute("VACUUM (SKIP_LOCKED) rag_chunk")
        if changed >= STALE_CHANGE + STALE_SHARE * size:
            cursor.execute(
                f"ANALYZE (SKIP_LOCKED) rag_chunk ({', '.join(PLANNED)}), rag_posting (project_id, scope),"
                " rag_sourcefile"
            )
        if embedded >= LARGE_CHANGE:
            # Its rows were all deleted again.
            cursor.execute("VACUUM rag_computedvector")
