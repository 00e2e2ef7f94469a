"""The metrics, computed by the library ir-measures (extra ``evaluation``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag.core.errors import RagError
from rag.core.evaluation import Values
from rag.evaluation.asked import Asked

#: As reports and ``--json`` name them, in their order.
METRICS = ("ndcg@10", "mrr@10", "recall@5", "recall@10", "recall@50")

#: A relevant unit that cannot be found keeps a question with nothing relevant in the collection at 0 instead of
#: dropping it from the mean.
UNFINDABLE = "\0"


class MetricsMissing(RagError):
    """Evaluation needs the library ir-measures: pip install 'ragproject[evaluation]' (or pip install ir-measures)."""


def require_library() -> Any:
    """The library. Raises ``MetricsMissing``, before any work is done when called first."""
    try:
        import ir_measures
    except ImportError:
        raise MetricsMissing from None
    return ir_measures


def measure(
    asked: Sequence[Asked], rankings: Mapping[str, Mapping[str, Sequence[str]]]
) -> dict[str, dict[str, Values]]:
    """By system and metric one number a question, ``(questions,)`` in the order of ``asked``; all are answerable."""
    library = require_library()
    wanted = {
        library.nDCG @ 10: "ndcg@10",
        library.RR @ 10: "mrr@10",
        library.R @ 5: "recall@5",
        library.R @ 10: "recall@10",
        library.R @ 50: "recall@50",
    }
    labels = [
        library.Qrel(one.id, unit, int(gain))
        for one in asked
        for unit, gain in (one.relevant or {UNFINDABLE: 1.0}).items()
    ]
    evaluator = library.evaluator(list(wanted), labels)
    place = {one.id: number for number, one in enumerate(asked)}
    measured = {}
    for system, ranking in rankings.items():
        values = {name: np.zeros(len(asked)) for name in METRICS}
        # Scores fall with the rank, so that the library has no ties to break its own way.
        run = [
            library.ScoredDoc(one.id, unit, -float(rank))
            for one in asked
            for rank, unit in enumerate(ranking.get(one.id, ()))
        ]
        for value in evaluator.iter_calc(run):
            values[wanted[value.measure]][place[value.query_id]] = value.value
        measured[system] = values
    return measured
