"""What the embedding service answers, and how one call's answer is gathered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag.core.types import Vector


@dataclass(frozen=True, slots=True)
class DocumentVectors:
    """Vectors of one batch of passages; ``vectors[i]`` is ``(768,) float32`` of unit length, or ``None``.

    ``available`` is False when the provider is away, slow, not allowed or broken; ``reason`` says why, and vectors
    that came before are kept. A ``None`` that is not among ``failures`` is to be tried in the next run.
    """

    available: bool
    reason: str | None
    vectors: tuple[Vector | None, ...]
    #: ``(index, reason)`` of the texts that failed by themselves, while the provider could embed others.
    failures: tuple[tuple[int, str], ...] = ()
    #: Indexes of the texts of which only the beginning was embedded.
    truncated: tuple[int, ...] = ()
    #: What the provider worked on: repeats and the control text included. ``tokens`` is its own count, if it gave any.
    texts: int = 0
    characters: int = 0
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector of one query, ``(768,) float32`` of unit length, or why there is none."""

    available: bool
    reason: str | None
    vector: Vector | None
    #: True when only the beginning of the query was embedded.
    truncated: bool = False
    texts: int = 0
    characters: int = 0
    tokens: int | None = None


class Tally:
    """What one call has gathered so far. Frozen into an answer at its end."""

    def __init__(self, size: int) -> None:
        self.vectors: list[Vector | None] = [None] * size
        self.failures: list[tuple[int, str]] = []
        self.truncated: list[int] = []
        #: Failures since the provider last proved that it works.
        self.doubted: list[tuple[int, str]] = []
        self._texts = self._characters = 0
        self._tokens: int | None = None

    def fail(self, index: int, reason: str, *, doubted: bool = True) -> None:
        """A text failed; ``doubted`` while it is not clear whether it or the provider is at fault."""
        self.failures.append((index, reason))
        if doubted:
            self.doubted.append((index, reason))

    def withdraw_doubted(self) -> str:
        """Take back the failures that were the provider's; the first one's reason."""
        reason = self.doubted[0][1]
        self.failures = [failed for failed in self.failures if failed not in self.doubted]
        self.doubted.clear()
        return reason

    def meter(self, sent: Sequence[str], tokens: int | None) -> None:
        """Count what the provider worked on."""
        self._texts += len(sent)
        self._characters += sum(map(len, sent))
        if tokens is not None:
            self._tokens = (self._tokens or 0) + tokens

    def documents(self, reason: str | None) -> DocumentVectors:
        """The answer; ``reason`` is why the provider is not available, ``None`` when it is."""
        return DocumentVectors(
            available=reason is None,
            reason=reason,
            vectors=tuple(self.vectors),
            failures=tuple(sorted(self.failures)),
            truncated=tuple(sorted(self.truncated)),
            texts=self._texts,
            characters=self._characters,
            tokens=self._tokens,
        )

    def query(self, reason: str | None) -> QueryVector:
        """The answer to one query; ``reason`` is why there is no vector."""
        return QueryVector(
            available=reason is None,
            reason=reason,
            vector=self.vectors[0],
            truncated=bool(self.truncated),
            texts=self._texts,
            characters=self._characters,
            tokens=self._tokens,
        )
