"""Bringing the index in step with the sources."""

from rag.indexing.request import parse_scopes
from rag.indexing.service import reindex

__all__ = ["parse_scopes", "reindex"]
