"""The configured embedding provider: its service for one project, and the metering of what it was sent."""

from __future__ import annotations

from typing import Protocol

from django.db.models import F
from django.utils import timezone

from rag.conf import RagConf, conf
from rag.core.profiles import profile_of, recorded_model
from rag.core.types import Embedder
from rag.embedders.factory import create_embedder
from rag.embedders.service import EmbeddingService, QueryMemory
from rag.models import EmbeddingUsage, Project

#: Recent query vectors of this process, whichever project asked: the same question is not embedded twice.
_memory = QueryMemory()


def configured_embedder(settings: RagConf) -> Embedder:
    """The embedder that the settings name. Raises ``InvalidInput`` with the setting's name."""
    return create_embedder(
        provider=settings.embedding_provider,
        model=settings.embedding_model,
        ollama_base_url=settings.ollama_base_url,
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        keep_alive=settings.ollama_keep_alive,
    )


def service_for(project: Project) -> EmbeddingService:
    """A service for one run or one search of the project, with the project's consent."""
    embedder = configured_embedder(conf())
    return EmbeddingService(
        embedder=embedder,
        profile=profile_of(embedder.provider, embedder.model),
        allow_remote=project.allow_remote_embedding,
        memory=_memory,
    )


def current_model() -> str:
    """The name under which the configured model's vectors are recorded."""
    embedder = configured_embedder(conf())
    return recorded_model(embedder.provider, embedder.model, profile_of(embedder.provider, embedder.model))


class Sent(Protocol):
    """Whatever says what a provider worked on: an answer of the embedding service, or several of them."""

    @property
    def texts(self) -> int: ...
    @property
    def characters(self) -> int: ...
    @property
    def tokens(self) -> int | None: ...


def meter(sent: Sent, *, project: Project, kind: str, service: EmbeddingService) -> None:
    """Add to the day's count; ``kind`` is ``run`` or ``query``. Nothing is written when nothing was sent."""
    if not sent.texts:
        return
    row, _ = EmbeddingUsage.objects.get_or_create(
        project=project, day=timezone.now().date(), kind=kind, provider=service.provider, model=service.model
    )
    EmbeddingUsage.objects.filter(pk=row.pk).update(
        texts=F("texts") + sent.texts,
        characters=F("characters") + sent.characters,
        tokens=F("tokens") + (sent.tokens or 0),
    )
