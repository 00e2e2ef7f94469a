"""What of each project's index has no vector of the current model, and why."""

from __future__ import annotations

from collections.abc import Iterator

from rag.core.errors import InvalidInput
from rag.doctor.findings import Check, Finding, Needs, Subject, ok, warning
from rag.indexing.lock import is_locked
from rag.models import EmbeddingFailure, Project, ProjectState
from rag.provider import current_model

CHECK = "vectors"


def vectors(subject: Subject) -> Iterator[Finding]:
    """Chunks by the model of their vector, project by project."""
    try:
        model = current_model()
    except InvalidInput:  # told by the check of the provider
        return
    for project in subject.projects:
        if project.state == ProjectState.READY:
            yield from _of_project(subject, project, model)


def _of_project(subject: Subject, project: Project, model: str) -> Iterator[Finding]:
    slug = project.slug
    # The name is empty without a vector, so an index alone answers this.
    counts: dict[str, int] = dict(
        subject.rows(
            "SELECT c.embedding_model, count(*) FROM rag_chunk c WHERE c.project_id = %s GROUP BY 1", [project.pk]
        )
    )
    total = sum(counts.values())
    embedded = {name: count for name, count in counts.items() if name}
    if not total:
        yield warning(CHECK, f"{slug}: nothing is indexed yet.", f"manage.py reindex {slug}", project=slug)
        return
    others = {name: count for name, count in embedded.items() if name != model}
    for name, count in sorted(others.items()):
        message = f"{slug}: {count} of {total} vectors are of {name}, not of {model}, and are not compared."
        yield warning(CHECK, message, f"manage.py reindex {slug}", project=slug)
    failed = _failed(subject, project, model)
    if failed:
        count, reason = failed
        message = f"{slug}: {count} chunks have a text that failed by itself: {reason}"
        yield warning(CHECK, message, f"manage.py reindex {slug} --retry-failed", project=slug)
    missing = total - sum(embedded.values()) - (failed[0] if failed else 0)
    if missing > 0:
        message = f"{slug}: {missing} of {total} chunks have no vector; they are found by their words alone."
        is_running = is_locked(project.pk, using=subject.using)
        remedy = "Wait for the reindex that is in progress." if is_running else f"manage.py reindex {slug}"
        yield warning(CHECK, message, remedy, project=slug)
    if len(embedded) == 1 and embedded.get(model) == total:
        yield ok(CHECK, f"{slug}: all {total} chunks have a vector of {model}.", project=slug)


def _failed(subject: Subject, project: Project, model: str) -> tuple[int, str] | None:
    """How many chunks without a vector failed by themselves, and one of the reasons."""
    failure = EmbeddingFailure.objects.using(subject.using).filter(project=project, model=model).first()
    if failure is None:
        return None
    ((count,),) = subject.rows(
        "SELECT count(*) FROM rag_chunk c JOIN rag_embeddingfailure f"
        " ON f.project_id = c.project_id AND f.text_hash = c.embedding_hash AND f.model = %s"
        " WHERE c.project_id = %s AND c.embedding_model = ''",
        [model, project.pk],
    )
    return (count, failure.reason) if count else None


CHECKS = (Check(CHECK, Needs.TABLES, vectors),)
