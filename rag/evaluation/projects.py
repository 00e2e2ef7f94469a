"""``evaluate PROJECT QUESTIONS.jsonl``: the same comparison on a project's index, with its own profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag.core.errors import ProjectNotReady
from rag.core.fusion import FusionProfile
from rag.core.types import Vector
from rag.embedders.service import EmbeddingService
from rag.evaluation.asked import Asked
from rag.evaluation.keeping import keep
from rag.evaluation.metrics import require_library
from rag.evaluation.outcome import COMPARED_METRIC, Evaluated, evaluated, evaluation_json
from rag.evaluation.pictures import interval_plot
from rag.evaluation.questions import Labelled, resolve, units_of
from rag.evaluation.retrieving import Retrieved, Watch, query_text, retrieve_all
from rag.evaluation.vectors import VectorFile, embed_questions, patient_service
from rag.models import Chunk, Evaluation, EvaluationKind, Project, ProjectState
from rag.provider import meter
from rag.search.profiles import fusion_profile
from rag.search.snapshot import reading_database, snapshot


@dataclass(frozen=True, slots=True)
class ProjectFound:
    """A project's candidates for its questions."""

    found: tuple[Retrieved, ...]
    profile: FusionProfile
    service: EmbeddingService
    chunks: int
    embedded: int
    reason: str | None
    #: Ids of answerable questions of which the index holds no expected passage.
    unresolved: tuple[str, ...]
    #: The questions' vectors by the text that was embedded.
    vectors: Mapping[str, Vector]


def evaluate_project(
    *, project: Project, questions: Sequence[Labelled], name: str = "", watch: Watch | None = None
) -> Evaluated:
    """Ask a project its labelled questions and compare the systems, with the project's profile; the report is kept.

    Raises ``InvalidInput``, ``ProjectNotReady``, ``MetricsMissing``.
    """
    require_library()
    asked = ask_project(project=project, questions=questions, watch=watch)
    found = evaluated(
        name=name or project.slug,
        found=asked.found,
        profile=asked.profile,
        model=asked.service.model,
        chunks=asked.chunks,
        embedded=asked.embedded,
        reason=asked.reason,
        extra={"project": project.slug, "unresolved": list(asked.unresolved)},
        thresholds=thresholds_by_language(project, asked.service.profile.model),
    )
    means = found.intervals()
    keep(
        Evaluation(
            project=project,
            kind=EvaluationKind.EVALUATION,
            name=name[:200],
            questions=len(questions),
            report=evaluation_json(found),
            picture=interval_plot(COMPARED_METRIC, [(system, one[COMPARED_METRIC]) for system, one in means.items()]),
        )
    )
    return found


def thresholds_by_language(project: Project, model: str) -> Mapping[str, Mapping[str, float]]:
    """The thresholds by language of the project's profile in force; none for the shipped one or another model's."""
    stored = project.profile or {}
    return stored.get("byLanguage") or {} if stored.get("model") in (None, model) else {}


def ask_project(
    *,
    project: Project,
    questions: Sequence[Labelled] = (),
    further: Sequence[Asked] = (),
    watch: Watch | None = None,
) -> ProjectFound:
    """The candidates of the labelled questions, then of ``further`` ones, in one snapshot of the index."""
    if project.state != ProjectState.READY:
        raise ProjectNotReady(
            f"The project {project.slug} is {project.state}; only a ready project is searched.", state=project.state
        )
    service = patient_service(allow_remote=project.allow_remote_embedding)
    texts = [query_text(Asked(id=one.id, text=one.question)) for one in questions]
    texts += [query_text(one) for one in further]
    with VectorFile(None, model=service.model, dimensions=service.profile.dimensions) as memory:
        vectors = embed_questions(texts, service=service, file=memory, watch=watch)
    meter(vectors, project=project, kind="query", service=service)
    using = reading_database()
    with snapshot(using):
        resolved = resolve(questions, project=project, using=using)
        scopes = {str(scope) for one in (*resolved.asked, *further) for scope in one.scopes}
        rows = Chunk.objects.using(using).filter(project_id=project.pk, scope__in=scopes)
        profile = fusion_profile(project, service.profile)
        found = retrieve_all(
            [*resolved.asked, *further],
            project=project,
            profile=profile,
            model=service.model,
            vectors=vectors.vectors,
            units_of=lambda asked, ids: units_of(asked, ids, using=using),
            using=using,
            watch=watch,
        )
        chunks = rows.count()
        embedded = rows.filter(embedding__isnull=False, embedding_model=service.model).count()
    reason = vectors.reason
    if reason is None and chunks and not embedded:
        reason = f"Nothing in the searched scopes is embedded with {service.model}."
    return ProjectFound(
        found=tuple(found),
        profile=profile,
        service=service,
        chunks=chunks,
        embedded=embedded,
        reason=reason,
        unresolved=resolved.unresolved,
        vectors=vectors.vectors,
    )
