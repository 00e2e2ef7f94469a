"""What a process remembers of embedded queries: recent vectors, and which models are just being warmed up."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from rag.core.types import Vector

#: Vectors kept: 3 KB each, so 1.5 MB a process. Paging and repeated searches ask for the same few queries.
QUERY_MEMORY_SIZE = 512


@dataclass(frozen=True, slots=True)
class RememberedQuery:
    """A query's stored-form vector, and whether the query had to be cut."""

    vector: Vector
    truncated: bool


class QueryMemory:
    """Bounded, least recently used out first; shared by threads and by services (keys name the model)."""

    def __init__(self, *, size: int = QUERY_MEMORY_SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._vectors: OrderedDict[tuple[str, str], RememberedQuery] = OrderedDict()
        self._warming: dict[str, str] = {}

    def get(self, *, model: str, text: str) -> RememberedQuery | None:
        """The vector of this text by this model, if it is still remembered."""
        with self._lock:
            found = self._vectors.get((model, text))
            if found is not None:
                self._vectors.move_to_end((model, text))
            return found

    def put(self, *, model: str, text: str, query: RememberedQuery) -> None:
        """Remember a vector."""
        with self._lock:
            self._vectors[model, text] = query
            self._vectors.move_to_end((model, text))
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

    def begin_warming(self, *, model: str, reason: str) -> bool:
        """Claim the one warm-up of this model; False when one is under way."""
        with self._lock:
            if model in self._warming:
                return False
            self._warming[model] = reason
            return True

    def end_warming(self, *, model: str) -> None:
        """The warm-up of this model is over, whatever came of it."""
        with self._lock:
            self._warming.pop(model, None)

    def warming_reason(self, *, model: str) -> str | None:
        """Why the model is being warmed up, or ``None`` when it is not."""
        with self._lock:
            return self._warming.get(model)
