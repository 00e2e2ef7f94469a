"""Ollama: ``POST /api/embed``, batched. The only endpoint used for vectors: ``/api/embeddings`` neither batches nor
normalises, and answers under another key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rag.core.errors import BadAnswer, EmbeddingError, ProviderUnavailable
from rag.core.profiles import canonical_model, vectors_of
from rag.core.types import EmbeddedBatch
from rag.embedders.addresses import parse_base_url
from rag.embedders.http import CONNECT_TIMEOUT, HttpAnswer, Transport, raise_for_status
from rag.embedders.probing import Check

#: Where Ollama listens by default.
DEFAULT_BASE_URL = "http://127.0.0.1:11434"
DEFAULT_PORT = 11434

#: Small enough that a slow processor answers within the 60 s of a call, and that progress moves; a round trip on
#: loopback costs next to nothing, so larger batches gain nothing.
BATCH_SIZE = 16

_SUFFIXES = ("/api/embeddings", "/api/embed", "/api", "/v1/embeddings", "/v1")


class OllamaEmbedder:
    """One model of one Ollama server. ``dimensions`` (when known) tells a row of wrong length from a wrong model."""

    provider = "ollama"
    batch_size = BATCH_SIZE

    def __init__(
        self,
        *,
        model: str,
        base_url: str = "",
        keep_alive: str = "",
        dimensions: int | None = None,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self.model = canonical_model(model)
        base = parse_base_url(
            base_url or DEFAULT_BASE_URL,
            setting="OLLAMA_BASE_URL",
            bare_port=DEFAULT_PORT,
            drop_suffixes=_SUFFIXES,
        )
        # A model tagged "cloud" is run by ollama.com on behalf of the server on this machine.
        self.is_remote = not base.is_loopback or self.model.endswith((":cloud", "-cloud"))
        self._dimensions = dimensions
        self._keep_alive = parse_keep_alive(keep_alive)
        self._transport = Transport(
            base,
            name="Ollama",
            hint="Start it with `ollama serve`, or set OLLAMA_BASE_URL.",
            connect_timeout=connect_timeout,
        )

    def embed(self, texts: Sequence[str], *, timeout: float) -> EmbeddedBatch:
        """Embed texts as they are; a row that is no vector is NaN. Raises ``EmbeddingError``."""
        # truncate off: Ollama would cut silently, and what is cut must be counted.
        payload: dict[str, Any] = {"model": self.model, "input": list(texts), "truncate": False}
        if self._keep_alive is not None:
            payload["keep_alive"] = self._keep_alive
        answer = self._transport.post("/api/embed", payload, timeout=timeout)
        self._raise_for_status(answer)
        body = answer.json()
        if "embeddings" not in body:
            raise BadAnswer("Ollama's answer has no `embeddings`: OLLAMA_BASE_URL must lead to /api/embed.")
        tokens = body.get("prompt_eval_count")
        return EmbeddedBatch(
            vectors=vectors_of(body["embeddings"], count=len(texts), dimensions=self._dimensions),
            tokens=tokens if type(tokens) is int and tokens >= 0 else None,
        )

    def check(self, *, timeout: float) -> Check:
        """Whether the server answers and has the model, without embedding anything. Never raises."""
        try:
            version = str(self._ask("/api/version", timeout).get("version", ""))[:40]
            models = self._ask("/api/tags", timeout).get("models")
        except EmbeddingError as error:
            return Check(ok=False, detail=str(error), remedy="Start Ollama (`ollama serve`), or set OLLAMA_BASE_URL.")
        names = [str(entry.get("name", "")) for entry in models or [] if isinstance(entry, dict)]
        detail = f"Ollama {version} at {self._transport.base.url}"
        if any(canonical_model(name) == self.model for name in names):
            return Check(ok=True, detail=f"{detail} has {self.model}")
        return Check(ok=False, detail=f"{detail} does not have {self.model}", remedy=f"ollama pull {self.model}")

    def _ask(self, path: str, timeout: float) -> dict[str, Any]:
        answer = self._transport.get(path, timeout=timeout)
        self._raise_for_status(answer)
        return answer.json()

    def _raise_for_status(self, answer: HttpAnswer) -> None:
        if answer.status == 404 and re.search(r"model|pull", answer.detail(), re.IGNORECASE):
            raise ProviderUnavailable(f"Ollama does not have the model {self.model}: run `ollama pull {self.model}`.")
        if answer.status in (404, 405):
            raise ProviderUnavailable(
                f"{self._transport.base.url} does not offer /api/embed (it answered {answer.status}): "
                "check OLLAMA_BASE_URL, or update Ollama."
            )
        if answer.status == 400 and "does not support" in answer.detail():
            raise ProviderUnavailable(f"The model {self.model} makes no embeddings: set RAG_EMBEDDING_MODEL.")
        raise_for_status(answer, name="Ollama")


def parse_keep_alive(raw: str) -> int | str | None:
    """``OLLAMA_KEEP_ALIVE`` as the API wants it: numbers as integers (``"-1"`` as text is refused), ``30m`` as is."""
    text = raw.strip()
    if not text:
        return None
    return int(text) if re.fullmatch(r"[+-]?\d{1,9}", text) else text
