"""The embedder that the settings name."""

from __future__ import annotations

from rag.core.errors import InvalidInput
from rag.core.profiles import profile_of, require_fitting
from rag.core.types import Embedder
from rag.embedders.http import CONNECT_TIMEOUT
from rag.embedders.local import MODEL as LOCAL_MODEL
from rag.embedders.local import LocalEmbedder
from rag.embedders.ollama import OllamaEmbedder
from rag.embedders.openai import OpenAIEmbedder
from rag.embedders.probing import Check, probe

__all__ = ["DEFAULT_MODELS", "Check", "create_embedder", "default_model", "probe"]

#: Each provider's default model; ``openai`` has none, since what it costs and where it runs must be chosen.
DEFAULT_MODELS: dict[str, str] = {"ollama": "nomic-embed-text", "openai": "", "local": LOCAL_MODEL}


def default_model(provider: str) -> str:
    """The provider's default model, empty for one that must be named. ``InvalidInput`` for an unknown provider."""
    try:
        return DEFAULT_MODELS[provider]
    except KeyError:
        raise InvalidInput(
            f"RAG_EMBEDDING_PROVIDER is {provider[:40]!r}; the providers are {', '.join(sorted(DEFAULT_MODELS))}.",
            field="RAG_EMBEDDING_PROVIDER",
        ) from None


def create_embedder(
    *,
    provider: str,
    model: str = "",
    ollama_base_url: str = "",
    openai_base_url: str = "",
    openai_api_key: str = "",
    keep_alive: str = "",
    connect_timeout: float = CONNECT_TIMEOUT,
) -> Embedder:
    """The embedder that the settings name; empty values stand for the provider's defaults. Connects to nothing.

    Raises ``InvalidInput`` with the setting's name: unknown provider, no model, a model that is too wide, a bad URL.
    """
    model = model.strip() or default_model(provider)
    default_model(provider)
    if not model:
        raise InvalidInput(
            f"The {provider} provider has no default model: set RAG_EMBEDDING_MODEL.", field="RAG_EMBEDDING_MODEL"
        )
    profile = profile_of(provider, model)
    require_fitting(profile)
    if provider == "ollama":
        return OllamaEmbedder(
            model=model,
            base_url=ollama_base_url,
            keep_alive=keep_alive,
            dimensions=profile.dimensions,
            connect_timeout=connect_timeout,
        )
    if provider == "openai":
        return OpenAIEmbedder(
            model=model,
            base_url=openai_base_url,
            api_key=openai_api_key,
            dimensions=profile.dimensions,
            ask_dimensions=profile.asks_dimensions,
            connect_timeout=connect_timeout,
        )
    return LocalEmbedder(model=model)
