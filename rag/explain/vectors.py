"""Why a passage has no vector that a question could be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q

from rag.explain.causes import Cause, Reason
from rag.models import ACTIVE_STATES, Chunk, EmbeddingFailure, IndexRun, Project


def without_vector(chunk_ids: Sequence[UUID], *, project: Project, model: str, using: str) -> dict[UUID, Reason]:
    """The reason for each of these chunks that has no vector of ``model``."""
    rows = list(
        Chunk.objects.using(using)
        .filter(project=project, pk__in=chunk_ids)
        .exclude(embedding__isnull=False, embedding_model=model)
        .annotate(is_missing=ExpressionWrapper(Q(embedding__isnull=True), output_field=BooleanField()))
        .values_list("pk", "is_missing", "embedding_model", "embedding_hash")
    )
    if not rows:
        return {}
    failures = EmbeddingFailure.objects.using(using).filter(
        project=project, model=model, text_hash__in=[row[3] for row in rows]
    )
    failed = dict(failures.values_list("text_hash", "reason"))
    reindex = f"manage.py reindex {project.slug}"
    why = _last_reason(project, using=using)
    found = {}
    for chunk_id, is_missing, recorded, text_hash in rows:
        if text_hash in failed:
            message = f"Its text failed by itself when it was embedded: {failed[text_hash]}"
            found[chunk_id] = Reason(Cause.EMBEDDING_FAILED, message, f"{reindex} --retry-failed")
        elif not is_missing:
            message = f"Its vector is one of {recorded}; questions are embedded with {model}."
            found[chunk_id] = Reason(Cause.OTHER_MODEL, message, reindex)
        else:
            found[chunk_id] = Reason(Cause.NOT_EMBEDDED, f"It has not been embedded yet.{why}", reindex)
    return found


def _last_reason(project: Project, *, using: str) -> str:
    runs = IndexRun.objects.using(using).filter(project=project, finished_at__isnull=False)
    run = runs.exclude(state__in=ACTIVE_STATES).order_by("-finished_at").first()
    said = (run.report.get("embedding") or {}).get("reason") if run is not None else None
    return f" The last run says: {said}" if said else ""
