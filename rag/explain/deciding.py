"""From the facts to the causes: where a passage was lost first, and what else stands in its way."""

from __future__ import annotations

from rag.core.types import Scope
from rag.explain.causes import Cause, Reason
from rag.explain.facts import PassageFacts, SearchFacts
from rag.search.hits import StoredChunk


def decide(passage: PassageFacts, search: SearchFacts) -> list[Reason]:
    """The causes in the order in which the search meets them; the first one is why the passage was not answered."""
    if passage.hit is not None:
        return [Reason(Cause.ANSWERED, f"It is hit {passage.hit} of {len(search.hits)}.")]
    reasons = list(passage.filtered)
    if not passage.filtered:
        reasons += _retrieved(passage, search)
    if passage.place is None and all(reason.cause is not Cause.OTHER_SCOPE for reason in reasons):
        reasons += _below_threshold(passage, search)
    reasons += _crowded_out(passage, search)
    if passage.unembedded is not None and search.embedded:
        # Where nothing is embedded, all compete by their words; elsewhere the vector is what it lacks.
        is_alone = search.vector_available or passage.place is None
        reasons.insert(len(passage.filtered) if is_alone else len(reasons), passage.unembedded)
    return reasons or [Reason(Cause.OUTRANKED, "It was a candidate, but others were better.")]


def cite(chunk: StoredChunk) -> str:
    """``path:line``, or ``session/event``."""
    return f"{chunk.session_key}/{chunk.event_key}" if chunk.session_key else f"{chunk.origin_key}:{chunk.start_line}"


def _retrieved(passage: PassageFacts, search: SearchFacts) -> list[Reason]:
    """Whether any signal brought the passage as a candidate."""
    if passage.by_vector or passage.by_words:
        return []
    if passage.cosine is None and passage.lexical_score is None:
        return [_no_signal(search)]
    if passage.vector_rank is not None and passage.vector_rank <= search.candidates:
        message = (
            f"Its vector is the {_nth(passage.vector_rank)} nearest, but the approximate index did not bring it among "
            f"the first {search.candidates}."
        )
        return [Reason(Cause.MISSED_BY_INDEX, message, "Raise RAG_HNSW_EF_SEARCH or RAG_EXACT_SCAN_ROWS.")]
    places = " and ".join(
        f"{_nth(rank) if rank else 'far down'} by {name}"
        for name, rank, has in (
            ("vector", passage.vector_rank, passage.cosine is not None),
            ("words", passage.lexical_rank, passage.lexical_score is not None),
        )
        if has
    )
    message = f"It stands {places}, and each signal brings its first {search.candidates} candidates."
    return [Reason(Cause.BEYOND_CANDIDATES, message, "Raise RAG_CANDIDATES, or ask more precisely.")]


def _no_signal(search: SearchFacts) -> Reason:
    if not search.lexical_available:
        message = "The question has no word that is not a stop word, and the passage no vector to compare."
    elif not search.vector_available:
        message = f"It has no word in common with the question, and vectors are not compared: {search.vector_reason}"
    else:
        message = "It has no word in common with the question, and no vector to compare."
    return Reason(Cause.NO_SIGNAL, message, "Ask with words that the passage has.")


def _below_threshold(passage: PassageFacts, search: SearchFacts) -> list[Reason]:
    """Whether the score is too low to be answered; there is no threshold in reciprocal rank fusion."""
    if search.fusion == "rrf":
        return []
    profile = search.profile
    if search.vector_available and passage.cosine is not None:
        if passage.score >= profile.threshold:
            return []
        message = f"Its score {passage.score:.3f} is below the threshold {profile.threshold:.3f} ({profile.name})."
        return [Reason(Cause.BELOW_THRESHOLD, message, "Calibrate the project, or ask more precisely.")]
    if passage.lexical_score is None:
        # What no signal knows was told as such.
        return []
    if passage.lexical_score >= profile.lexical_threshold:
        return []
    message = (
        f"Without a vector its words alone count: their score {passage.lexical_score:.3f} is below the lexical "
        f"threshold {profile.lexical_threshold:.3f} ({profile.name})."
    )
    return [Reason(Cause.BELOW_THRESHOLD, message, "Calibrate the project, or ask with more of the passage's words.")]


def _crowded_out(passage: PassageFacts, search: SearchFacts) -> list[Reason]:
    """What came before a passage that was not lost until here, or would come before one that was."""
    if passage.stood_for_by is not None:
        why = _why(passage.chunk, passage.stood_for_by)
        return [Reason(Cause.STOOD_FOR, f"A better passage stands for it: {why}.")]
    if passage.nearly_same_as is not None:
        better = cite(passage.nearly_same_as)
        message = f"Its text is nearly the same as that of the better hit {better}, so others come first."
        return [Reason(Cause.NEAR_DUPLICATE, message, "Raise --limit to see it too.")]
    if passage.hit_without_rules:
        message = (
            f"Fusion puts it at place {passage.fused_place}, the ranking rules for code at place {passage.place}: "
            f"{_rules(passage)}."
        )
        return [Reason(Cause.RANKING_RULES, message, "Name the symbol or the file in the question, or raise --limit.")]
    if not search.is_full or passage.filtered:
        return []
    remedy = "Raise --limit, or ask more precisely."
    if passage.place is not None:
        message = f"It is at place {passage.place}, and {search.limit} hits were asked for: better ones come before it."
        return [Reason(Cause.OUTRANKED, message, remedy)]
    # Scores that the rules have changed are on another scale.
    lowest = search.hits[-1][1].score
    if search.ruled or passage.score >= lowest:
        return []
    message = f"Its score {passage.score:.4f} is below that of every hit (lowest: {lowest:.4f})."
    return [Reason(Cause.OUTRANKED, message)]


def _why(chunk: StoredChunk, better: StoredChunk) -> str:
    """What makes one passage stand for the other (see ``rag.core.near_duplicates.is_stood_for``)."""
    if chunk.content_hash == better.content_hash:
        return f"{cite(better)} has the same content"
    if chunk.scope is Scope.CODE and chunk.symbol:
        return f"{cite(better)} is another piece of the symbol {chunk.symbol}"
    return f"{cite(better)} is its overlapping neighbour"


def _rules(passage: PassageFacts) -> str:
    """The rules that say something of the passage, else that they say nothing for it."""
    shares = passage.rules
    told = [
        text.format(shares[name])
        for name, text in (
            ("aside", "its path is that of a test, an example or generated code"),
            ("definition", "it defines a symbol that the question names ({:.2f})"),
            ("stem", "its file is called what the question asks about ({:.2f})"),
            ("folder", "its folder is ({:.2f})"),
            ("symbol", "its symbol is ({:.2f})"),
        )
        if shares.get(name)
    ]
    if told:
        return "; ".join(told)
    return "nothing in its path or symbol is named by the question, or better chunks of its file come first"


def _nth(rank: int) -> str:
    ending = "th" if 10 <= rank % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
