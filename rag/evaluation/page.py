"""An evaluation as one HTML page: tables and plots, no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from rag.evaluation.metrics import METRICS
from rag.evaluation.outcome import COMPARED_METRIC, Evaluated
from rag.evaluation.pictures import interval_plot

STYLE = """
body { font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: 0.3rem 0.8rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
td small { color: #666; }
svg { max-width: 100%; height: auto; }
.note { background: #fff3cd; padding: 0.6rem 1rem; }
"""

PROMISE = (
    "A threshold tells a question that is foreign to these documents from one that is about their subjects. It does "
    "not tell that the documents have a gap: a question about their own subject that they do not answer mostly gets "
    "an answer all the same."
)


def evaluation_page(evaluated: Evaluated) -> str:
    """The whole page."""
    title = f"Evaluation of {evaluated.name}"
    body = "\n".join(_body(evaluated))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _body(evaluated: Evaluated) -> Iterator[str]:
    means = evaluated.intervals()
    yield (
        f"<p>{evaluated.questions} answerable questions, {evaluated.unanswerable} without an answer; "
        f"{evaluated.chunks} chunks, {evaluated.embedded} of them embedded with {escape(evaluated.model)}; profile "
        f"{escape(evaluated.profile.name)}.</p>"
    )
    if evaluated.reason:
        yield f'<p class="note">{escape(evaluated.reason)}</p>'
    yield "<h2>Systems</h2><p>Means with 95 % intervals (bootstrap over the questions).</p>"
    head = "".join(f"<th>{metric}</th>" for metric in METRICS)
    yield f"<table><tr><th>system</th>{head}</tr>"
    for system, one in means.items():
        cells = "".join(
            f"<td>{one[metric].mean:.3f}<br><small>{one[metric].low:.3f} – {one[metric].high:.3f}</small></td>"
            for metric in METRICS
        )
        yield f"<tr><td>{system}</td>{cells}</tr>"
    yield "</table>"
    for metric in METRICS:
        yield interval_plot(metric, [(system, one[metric]) for system, one in means.items()])
    if comparisons := evaluated.comparisons():
        yield f"<h2>Paired differences in {COMPARED_METRIC}</h2>"
        yield "<table><tr><th>systems</th><th>difference</th><th>95 % interval</th><th>p (Holm)</th></tr>"
        for each in comparisons:
            found = each.difference
            yield (
                f"<tr><td>{each.system} − {each.against}</td><td>{found.mean:+.3f}</td>"
                f"<td>{found.low:+.3f} – {found.high:+.3f}</td><td>{each.corrected_p:.4f}</td></tr>"
            )
        yield "</table>"
    yield "<h2>Is there an answer at all?</h2>"
    answering = evaluated.answering
    rows = (
        ("threshold", answering.threshold),
        ("answerable questions that are answered", answering.kept),
        ("unanswerable questions that are answered", answering.answered),
        ("AUC of the best score", answering.auc),
    )
    cells = "".join(f"<tr><td>{name}</td><td>{_shown(value)}</td></tr>" for name, value in rows)
    yield f"<table>{cells}</table><p>{PROMISE}</p>"


def _shown(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
