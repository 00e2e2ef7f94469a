"""After a run: dropping what was kept for it, expiring retired chunks, and leaving the tables in good order."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.utils import timezone

from rag.conf import RagConf
from rag.models import ComputedVector, IndexRun, Project, RetiredChunk

#: Created and deleted chunks from which the table's statistics are refreshed at once instead of by autovacuum.
LARGE_CHANGE = 5000


def tidy(*, project: Project, run: IndexRun, settings: RagConf, complete: bool) -> None:
    """Drop the vectors kept for a finished run (not those of one whose provider went away), and expired records."""
    if complete:
        ComputedVector.objects.filter(project=project).delete()
    cutoff = timezone.now() - timedelta(days=settings.retired_days)
    RetiredChunk.objects.filter(project=project, retired_at__lt=cutoff).delete()
    scopes = run.report.get("scopes", {}).values()
    changed = sum(scope["created"] + scope["deleted"] for scope in scopes)
    if not changed or connection.in_atomic_block:
        return
    with connection.cursor() as cursor:
        # What a bulk insert leaves in GIN's pending list would be read by every search until it is merged.
        cursor.execute("SELECT gin_clean_pending_list('rag_chunk_search_vector')")
        if changed >= LARGE_CHANGE:
            cursor.execute("ANALYZE rag_chunk, rag_posting, rag_sourcefile")
