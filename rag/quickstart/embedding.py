"""Which embedding provider a first run uses: Ollama when it answers with the model, else the local one, else none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from rag.conf import conf
from rag.core.errors import InvalidInput
from rag.embedders.factory import Check, create_embedder, probe
from rag.provider import configured_embedder
from rag.quickstart.environment import adopt

VARIABLE = "RAG_EMBEDDING_PROVIDER"


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """The provider that is used from now on; ``detail`` says which or why there is none, in words for the terminal."""

    provider: str
    works: bool
    detail: str
    #: What to do for a provider that works; empty when one does.
    remedy: str = ""


def choose_embedding() -> EmbeddingChoice:
    """Ask the providers (no content is sent) and adopt the first that works; the environment's own choice stands."""
    if os.environ.get(VARIABLE, "").strip():
        return _given()
    settings = conf()
    ollama = create_embedder(
        provider="ollama",
        model=settings.embedding_model,
        ollama_base_url=settings.ollama_base_url,
        keep_alive=settings.ollama_keep_alive,
    )
    answer = probe(ollama)
    why_not = answer.detail
    if answer.ok and not ollama.is_remote:
        adopt(VARIABLE, "ollama", text="ollama")
        return EmbeddingChoice("ollama", True, answer.detail)
    if answer.ok:
        # A project sends its content elsewhere only after somebody allowed it.
        why_not = f"Ollama at {settings.ollama_base_url} is not on this machine"
    local = _local()
    if local is not None:
        adopt(VARIABLE, "local", text="local")
        return EmbeddingChoice("local", True, local)
    adopt(VARIABLE, "ollama", text="ollama")
    remedies = [_remedy(answer), "" if settings.embedding_model else "install the local model with make setup"]
    return EmbeddingChoice("ollama", False, why_not, _sentence(remedies))


def _given() -> EmbeddingChoice:
    embedder = configured_embedder(conf())
    answer = probe(embedder) if not embedder.is_remote else None
    if answer is None:
        detail = f"{embedder.provider}/{embedder.model} (not on this machine: a project must allow it)"
        return EmbeddingChoice(embedder.provider, True, detail)
    return EmbeddingChoice(embedder.provider, answer.ok, answer.detail, _sentence([_remedy(answer)]))


def _remedy(answer: Check) -> str:
    """The command that installs what is missing; a server that is not reached says by itself what to do."""
    return f"run {answer.remedy}" if answer.remedy.startswith(("ollama pull", "pip install")) else ""


def _sentence(remedies: Sequence[str]) -> str:
    text = ", or ".join(remedy for remedy in remedies if remedy)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _local() -> str | None:
    """What the local model says of itself; ``None`` when it is not installed or another model is wanted."""
    try:
        answer = probe(create_embedder(provider="local", model=conf().embedding_model))
    except InvalidInput:
        return None
    return answer.detail if answer.ok else None
