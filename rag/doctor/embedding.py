"""The embedding provider: reachable, with the right model, its dimensions and prefixes."""

from __future__ import annotations

from collections.abc import Iterator

from rag.core.errors import InvalidInput
from rag.core.profiles import ModelProfile, known_like, profile_of
from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.embedders.factory import probe
from rag.provider import configured_embedder

CHECK = "embedding"
#: Seconds for each answer: a model that is not loaded yet takes longer than a question may.
PROBE_TIMEOUT = 15.0
#: How far a vector's length may be from 1 before it counts as not normalised. Searches do not mind: cosines are.
NEARLY_ONE = 0.01


def provider(subject: Subject) -> Iterator[Finding]:
    """Asks the provider to embed a text of ours; nothing of any project is sent."""
    try:
        embedder = configured_embedder(subject.settings)
    except InvalidInput as problem:
        yield error(CHECK, str(problem), f"Set {problem.field or 'RAG_EMBEDDING_MODEL'}.")
        return
    profile = profile_of(embedder.provider, embedder.model)
    found = probe(embedder, profile=profile, timeout=PROBE_TIMEOUT)
    if not found.ok:
        message = f"{found.detail.removesuffix('.')}. Until then searches go by words alone."
        remedy = found.remedy or "Check RAG_EMBEDDING_PROVIDER and RAG_EMBEDDING_MODEL."
        like = known_like(embedder.model) if profile.dimensions is None else ""
        yield error(CHECK, message, f"{remedy} (is RAG_EMBEDDING_MODEL={like} meant?)" if like else remedy)
        return
    yield ok(CHECK, f"{found.detail}: {_shape(found.dimensions, found.norm)}, {_prefixes(profile)}.")
    if profile.dimensions is None:
        message = f"{embedder.model} is not known here: its prefixes and similarity floor are taken to be none and 0."
        yield warning(CHECK, message, "manage.py calibrate SLUG, or a model of docs/operations.md.")
    if embedder.is_remote:
        for project in subject.projects:
            if not project.allow_remote_embedding:
                message = (
                    f"{embedder.provider} is not on this machine and {project.slug} does not allow it: no vectors."
                )
                yield warning(
                    CHECK, message, "Allow remote embedding on the project in the admin.", project=project.slug
                )


def _shape(dimensions: int | None, norm: float | None) -> str:
    if norm is None:
        return f"{dimensions} dimensions"
    normalised = "" if abs(norm - 1) <= NEARLY_ONE else " (not normalised; stored vectors are)"
    return f"{dimensions} dimensions, norm {norm:.3f}{normalised}"


def _prefixes(profile: ModelProfile) -> str:
    if not (profile.document_prefix or profile.query_prefix):
        return "no prefixes"
    return f"prefixes {profile.document_prefix!r} and {profile.query_prefix!r}"


CHECKS = (Check(CHECK, Needs.NOTHING, provider),)
