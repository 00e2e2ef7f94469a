"""Asking a provider whether it can work, for ``doctor`` and ``quickstart``: an answer with a remedy, never an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from rag.core.errors import RagError
from rag.core.profiles import CONTROL_TEXT, EMBEDDING_DIMENSIONS, ModelProfile, fault_of, too_wide, wrong_dimensions
from rag.core.types import Embedder

#: Seconds a probe waits for each answer by default: somebody is watching.
PROBE_TIMEOUT = 3.0


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the provider is reachable with the right model; ``remedy`` says what to do when not."""

    ok: bool
    detail: str
    remedy: str = ""
    #: Of the control text's vector, when it was embedded (``probe(…, profile=…)``).
    dimensions: int | None = None
    norm: float | None = None


@runtime_checkable
class Checkable(Protocol):
    """An embedder that can be asked without embedding anything."""

    def check(self, *, timeout: float) -> Check:
        """Whether it can work. Never raises."""
        ...


def probe(embedder: Embedder, *, profile: ModelProfile | None = None, timeout: float = PROBE_TIMEOUT) -> Check:
    """Whether the provider is reachable with the right model. Never raises.

    With ``profile`` a control text (ours, never the project's) is embedded with the document prefix too, and what
    comes back is compared with the profile; a cold model may need a longer ``timeout`` for that.
    """
    check: Check | None = None
    if isinstance(embedder, Checkable):
        check = embedder.check(timeout=timeout)
        if not check.ok or profile is None:
            return check
    prefix = profile.document_prefix if profile is not None else ""
    try:
        vectors = embedder.embed([prefix + CONTROL_TEXT], timeout=timeout).vectors
    except RagError as error:
        return Check(ok=False, detail=str(error), remedy="Check RAG_EMBEDDING_PROVIDER, RAG_EMBEDDING_MODEL, the URL.")
    except Exception as error:
        return Check(ok=False, detail=f"The embedder failed ({type(error).__name__}).", remedy="Report this.")
    dimensions = int(vectors.shape[1])
    norm = float(np.linalg.norm(vectors[0].astype(np.float64)))
    detail = check.detail if check is not None else f"{embedder.provider} answers with {embedder.model}"
    fault = fault_of(vectors[0]) or _misfit(embedder.model, dimensions, profile)
    if fault is not None:
        return Check(False, fault, "Set RAG_EMBEDDING_MODEL to the model that is meant.", dimensions, norm)
    return Check(True, detail, "", dimensions, norm)


def _misfit(model: str, dimensions: int, profile: ModelProfile | None) -> str | None:
    expected = profile.dimensions if profile is not None else None
    if expected is not None and dimensions != expected:
        return wrong_dimensions(model, dimensions, expected)
    return too_wide(model, dimensions) if dimensions > EMBEDDING_DIMENSIONS else None
