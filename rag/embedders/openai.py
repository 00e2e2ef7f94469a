"""Any server that speaks OpenAI's ``POST /v1/embeddings``: OpenAI, vLLM, llama.cpp, text-embeddings-inference …"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from rag.core.errors import BadAnswer, InvalidInput, ProviderUnavailable
from rag.core.profiles import vectors_of
from rag.core.types import EmbeddedBatch
from rag.embedders.addresses import parse_base_url
from rag.embedders.http import CONNECT_TIMEOUT, HttpAnswer, Transport, raise_for_status

#: The API everyone else copied.
DEFAULT_BASE_URL = "https://api.openai.com/v1"

#: A round trip over the network costs more than on loopback; 64 chunks stay far below every known request limit.
BATCH_SIZE = 64


class OpenAIEmbedder:
    """One model of one OpenAI-compatible server.

    ``dimensions`` is the expected length; ``ask_dimensions`` sends it too, for models that shorten on request.
    """

    provider = "openai"
    batch_size = BATCH_SIZE

    def __init__(
        self,
        *,
        model: str,
        base_url: str = "",
        api_key: str = "",
        dimensions: int | None = None,
        ask_dimensions: bool = False,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        if not model.strip():
            raise InvalidInput(
                "The openai provider has no default model: set RAG_EMBEDDING_MODEL.", field="RAG_EMBEDDING_MODEL"
            )
        self.model = model.strip()
        base = parse_base_url(base_url or DEFAULT_BASE_URL, setting="OPENAI_BASE_URL", drop_suffixes=("/embeddings",))
        # Both spellings are common: the server's root, and the root with the version.
        self._path = "/embeddings" if urlsplit(base.url).path else "/v1/embeddings"
        self.is_remote = not base.is_loopback
        self._dimensions, self._ask_dimensions = dimensions, ask_dimensions
        self._transport = Transport(
            base,
            name="The embedding server",
            hint="Start it, or set OPENAI_BASE_URL.",
            secret=_checked_key(api_key),
            connect_timeout=connect_timeout,
        )

    def embed(self, texts: Sequence[str], *, timeout: float) -> EmbeddedBatch:
        """Embed texts as they are; a row that is no vector is NaN. Raises ``EmbeddingError``."""
        payload: dict[str, Any] = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        if self._ask_dimensions and self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        answer = self._transport.post(self._path, payload, timeout=timeout)
        self._raise_for_status(answer)
        body = answer.json()
        return EmbeddedBatch(
            vectors=vectors_of(_in_order(body.get("data")), count=len(texts), dimensions=self._dimensions),
            tokens=_tokens(body.get("usage")),
        )

    def _raise_for_status(self, answer: HttpAnswer) -> None:
        said = f"The embedding server answered {answer.status}: {answer.detail()}"
        if answer.status in (401, 403):
            raise ProviderUnavailable(f"{said} Check OPENAI_API_KEY.")
        if answer.status == 404:
            raise ProviderUnavailable(f"{said} Check RAG_EMBEDDING_MODEL ({self.model}) and OPENAI_BASE_URL.")
        if answer.status == 400 and re.search(r"model\b.*(not exist|not found|unknown)", answer.detail(), re.I):
            raise ProviderUnavailable(f"{said} Check RAG_EMBEDDING_MODEL ({self.model}).")
        if answer.status == 429 and "quota" in answer.detail().lower():
            raise ProviderUnavailable(said)  # waiting does not refill an account
        raise_for_status(answer, name="The embedding server")


def _in_order(data: object) -> list[object]:
    """The ``embedding`` of every item, sorted by ``index`` where items carry one."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise BadAnswer("The answer has no list `data`: OPENAI_BASE_URL must lead to an embeddings API.")
    indexes = [item.get("index") for item in data]
    if all(index is None for index in indexes):
        return [item.get("embedding") for item in data]
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(len(data))):
        raise BadAnswer("The answer's `index` values do not number its items.")
    return [item.get("embedding") for item in sorted(data, key=lambda item: item["index"])]


def _tokens(usage: object) -> int | None:
    if isinstance(usage, dict):
        for key in ("total_tokens", "prompt_tokens"):
            tokens = usage.get(key)
            if type(tokens) is int and tokens >= 0:
                return tokens
    return None


def _checked_key(raw: str) -> str:
    key = raw.strip()
    if not key.isascii() or not all(c.isprintable() and c != " " for c in key):
        raise InvalidInput("OPENAI_API_KEY holds characters that no key has.", field="OPENAI_API_KEY")
    return key
