"""Scopes' statistics as scoring wants them, kept in this process while the stored ones stay the same.

The lengths of a scope's chunks are read and normalised once a reindex instead of once a question (1.3 of 7 ms at
200,000 chunks). A version names one state of the stored row, so what is kept never belongs to another snapshot than the
postings that are read beside it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

from rag.core.bm25 import ScopeIndex
from rag.core.types import Scope

#: Database alias, project, scope, k1 and b.
Key: TypeAlias = tuple[str, int, Scope, float, float]

#: A row version's own name over ``rag_scopeindex s``: the row, the transaction that wrote it and its place, which no
#: two versions share, and the time of the reindex, for what outlives those (VACUUM FULL renames old versions).
VERSION = "concat_ws(' ', s.id, s.xmin, s.ctid, s.updated_at)"

#: Chunks of all kept scopes together: 8 bytes each, 32 MB a process.
MOST_CHUNKS = 4_000_000


@dataclass(slots=True)
class ScopeIndexes:
    """The last used scopes' statistics; safe for threads."""

    most_chunks: int = MOST_CHUNKS
    _kept: OrderedDict[Key, tuple[str, ScopeIndex]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Key) -> tuple[str, ScopeIndex] | None:
        """The kept version and its statistics."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Key, version: str, index: ScopeIndex) -> None:
        """Keep the newest version read; scopes that were not used for longest make room."""
        with self._lock:
            self._kept[key] = (version, index)
            self._kept.move_to_end(key)
            while self._kept and sum(len(one.saturation) for _, one in self._kept.values()) > self.most_chunks:
                self._kept.popitem(last=False)
