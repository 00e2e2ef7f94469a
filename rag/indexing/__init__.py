"""Bringing the index in step with the sources."""

from rag.indexing.service import parse_scopes, reindex

__all__ = ["parse_scopes", "reindex"]
