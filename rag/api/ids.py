"""Ids as they come in URLs."""

from __future__ import annotations

from uuid import UUID


def uuid_of(text: str) -> UUID | None:
    """The UUID in its usual 36-character form; ``None`` for anything else."""
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None
