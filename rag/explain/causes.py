"""The ways a passage can miss an answer, in the order in which a search meets them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Where a passage was lost; ``answered`` when it was not."""

    ANSWERED = "answered"
    # The index does not hold it.
    NOT_TRACKED = "not_tracked"
    NO_SCOPE = "no_scope"
    REFUSED = "refused"
    IGNORED = "ignored"
    SKIPPED = "skipped"
    NOT_INDEXED = "not_indexed"
    STALE = "stale"
    RETIRED = "retired"
    NO_PASSAGE = "no_passage"
    # The search was not allowed to bring it.
    OTHER_SCOPE = "other_scope"
    OTHER_PATH = "other_path"
    OTHER_SESSION = "other_session"
    NO_PHRASE = "no_phrase"
    EXCLUDED = "excluded"
    # It has no vector to compare.
    NOT_EMBEDDED = "not_embedded"
    OTHER_MODEL = "other_model"
    EMBEDDING_FAILED = "embedding_failed"
    # No signal brought it.
    NO_SIGNAL = "no_signal"
    MISSED_BY_INDEX = "missed_by_index"
    BEYOND_CANDIDATES = "beyond_candidates"
    # It was brought, and something else counted more.
    BELOW_THRESHOLD = "below_threshold"
    STOOD_FOR = "stood_for"
    NEAR_DUPLICATE = "near_duplicate"
    RANKING_RULES = "ranking_rules"
    OUTRANKED = "outranked"


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause in a sentence, and what would change it (empty where nothing is to be mended)."""

    cause: Cause
    message: str
    remedy: str = ""
