"""``evaluate --dataset``: how well each signal and fusion finds what answers, on a labelled collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.conf import conf
from rag.core.chunking.text import ChunkSizes
from rag.core.errors import InvalidInput
from rag.core.fusion import FusionProfile
from rag.core.types import Vector
from rag.evaluation.asked import Asked
from rag.evaluation.collection import cut_collection, indexed
from rag.evaluation.dataset import Dataset
from rag.evaluation.language import guess_language
from rag.evaluation.metrics import require_library
from rag.evaluation.outcome import Evaluated, evaluated
from rag.evaluation.retrieving import Retrieved, Watch, query_text, retrieve_all
from rag.evaluation.vectors import VectorFile, embed_passages, embed_questions, patient_service
from rag.models import Language, Project
from rag.search.profiles import fusion_profile


@dataclass(frozen=True, slots=True)
class Collected:
    """A collection's candidates, for whoever wants to try settings on them."""

    dataset: Dataset
    language: str
    chunks: int
    embedded: int
    reason: str | None
    profile: FusionProfile
    model: str
    found: tuple[Retrieved, ...]
    #: By embedded text, and by the questions' parsed text.
    passage_vectors: Mapping[str, Vector]
    question_vectors: Mapping[str, Vector]


def evaluate_dataset(
    *,
    dataset: Dataset,
    language: str | None = None,
    sizes: ChunkSizes | None = None,
    vectors: Path | None = None,
    embed: bool = True,
    allow_remote: bool = False,
    watch: Watch | None = None,
) -> Evaluated:
    """Index the collection for the time of the call, ask it all its questions and compare the systems.

    ``language``: of the text search (guessed from the texts when not given); ``vectors``: a file that keeps what is
    embedded; ``embed`` false uses that file alone; ``allow_remote``: texts may go to a provider on another machine.
    Raises ``InvalidInput``, ``MetricsMissing``.
    """
    require_library()
    collected = collect(
        dataset=dataset,
        language=language,
        sizes=sizes,
        vectors=vectors,
        embed=embed,
        allow_remote=allow_remote,
        watch=watch,
    )
    return evaluated(
        name=dataset.name,
        found=collected.found,
        profile=collected.profile,
        model=collected.model,
        chunks=collected.chunks,
        embedded=collected.embedded,
        reason=collected.reason,
        extra={"language": collected.language, "documents": len(dataset.documents)},
    )


def collect(
    *,
    dataset: Dataset,
    language: str | None = None,
    sizes: ChunkSizes | None = None,
    vectors: Path | None = None,
    embed: bool = True,
    allow_remote: bool = False,
    further: Sequence[Asked] = (),
    watch: Watch | None = None,
) -> Collected:
    """The candidates of every question of a collection, then of ``further`` questions, all asked of the same index."""
    if language is None:
        language = guess_language(document.text for document in dataset.documents)
    elif language not in Language.values:
        raise InvalidInput(f"language must be one of {', '.join(Language.values)}.", field="language")
    collection = cut_collection(dataset.name, dataset.documents, language=language, sizes=sizes or conf().chunk_sizes)
    service = patient_service(allow_remote=allow_remote)
    asked = [*dataset.questions, *further]
    with VectorFile(vectors, model=service.model, dimensions=service.profile.dimensions) as file:
        passages = embed_passages(collection.texts, service=service, file=file, compute=embed, watch=watch)
        questions = embed_questions(
            [query_text(one) for one in asked], service=service, file=file, compute=embed, watch=watch
        )
    profile = fusion_profile(Project(language=language), service.profile)
    document_of = collection.document_of
    with indexed(collection, language=language, model=service.model, vectors=passages.vectors) as project:
        found = retrieve_all(
            asked,
            project=project,
            profile=profile,
            model=service.model,
            vectors=questions.vectors,
            units_of=lambda _, ids: {chunk_id: document_of[chunk_id] for chunk_id in ids},
            watch=watch,
        )
    return Collected(
        dataset=dataset,
        language=language,
        chunks=len(collection.chunks),
        embedded=sum(text in passages.vectors for text in collection.texts),
        reason=passages.reason or questions.reason,
        profile=profile,
        model=service.model,
        found=tuple(found),
        passage_vectors=passages.vectors,
        question_vectors=questions.vectors,
    )
