"""Definitions of the names a question asks for: candidates of their own, however many other chunks use the name.

BM25 sees a word in a symbol's name, not whether it is the name: where hundreds of symbols are called ``…Visitor``, the
definition of ``Visitor`` may stand behind all of them. What a symbol is called is stored, so it is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from django.db import connections

from rag.core.bm25 import FIELD_WEIGHTS, Ordinals, PostingList
from rag.core.query import QueryWord
from rag.core.types import Scope

#: Chunks that are looked at, and definitions that are taken: a name with more is no name to ask for alone.
MOST_LOOKED_AT = 1000
MOST_TAKEN = 20

#: A chunk that has a word in its symbol has it at least this often: occurrences there count so much.
_IN_SYMBOL = FIELD_WEIGHTS[Scope.CODE][0]

DEFINES = """
SELECT c.ordinal, c.id FROM rag_chunk c
WHERE c.project_id = %s AND c.scope = 'code' AND c.ordinal = ANY(%s)
  AND lower(replace(substring(c.symbol from '[^.]*$'), '_', '')) = ANY(%s)
"""


def names_of(query: Sequence[QueryWord]) -> tuple[QueryWord, ...]:
    """The identifiers in a question without their separators; a question of one word is a name itself."""
    derived = tuple(word for word in query if word.derived)
    return derived or (tuple(query) if len(query) == 1 else ())


def may_define(postings: Sequence[PostingList]) -> Ordinals:
    """The chunks that have a name often enough to be called by it."""
    ordinals = [posting.ordinals[posting.frequencies >= _IN_SYMBOL] for posting in postings]
    return np.unique(np.concatenate(ordinals)) if ordinals else np.zeros(0, dtype=np.int32)


def definitions(
    names: Sequence[QueryWord], ordinals: Sequence[int], *, project_id: int, using: str
) -> list[tuple[int, UUID]]:
    """``(ordinal, chunk)`` of the first ``MOST_TAKEN`` of these code chunks whose symbol's own name is one of these."""
    looked_at = list(ordinals[:MOST_LOOKED_AT])
    if not names or not looked_at:
        return []
    with connections[using].cursor() as cursor:
        cursor.execute(DEFINES, [project_id, looked_at, [word.text for word in names]])
        found = dict(cursor.fetchall())
    return [(ordinal, found[ordinal]) for ordinal in looked_at if ordinal in found][:MOST_TAKEN]
