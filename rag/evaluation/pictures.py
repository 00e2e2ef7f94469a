"""Plots as SVG text, without a library: intervals of several systems, and precision and recall by threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rag.core.answerability import Point, Recommendation
from rag.core.evaluation import Interval

#: Pixels; text is sized for a page of normal width.
ROW_HEIGHT, LABEL_WIDTH, PLOT_WIDTH, MARGIN = 26, 110, 420, 28
CURVE_SIZE = 360
#: Readable on white, in print and with the common colour deficiencies (Okabe and Ito 2008).
INK, GREY, BLUE, ORANGE, GREEN = "#222222", "#bbbbbb", "#0072b2", "#d55e00", "#009e73"
FONT = 'font-family="sans-serif" font-size="12"'
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One named line of a plot: ``(x, y)`` from 0 to 1."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


def interval_plot(title: str, rows: Sequence[tuple[str, Interval]]) -> str:
    """A row a system: its mean as a dot, its interval as a bar, on a scale from 0 to 1."""
    height = MARGIN * 2 + ROW_HEIGHT * len(rows)
    width = LABEL_WIDTH + PLOT_WIDTH + 60
    parts = [_text(0, 14, title, weight="bold")]
    for tick in TICKS:
        x = LABEL_WIDTH + tick * PLOT_WIDTH
        parts.append(f'<line x1="{x:.1f}" y1="22" x2="{x:.1f}" y2="{height - MARGIN}" stroke="{GREY}"/>')
        parts.append(_text(x, height - 10, f"{tick:.1f}", anchor="middle"))
    for number, (name, value) in enumerate(rows):
        y = MARGIN + ROW_HEIGHT * number + ROW_HEIGHT / 2
        low, mean, high = (LABEL_WIDTH + one * PLOT_WIDTH for one in (value.low, value.mean, value.high))
        parts.append(_text(0, y + 4, name))
        parts.append(
            f'<line x1="{low:.1f}" y1="{y:.1f}" x2="{high:.1f}" y2="{y:.1f}" stroke="{BLUE}" stroke-width="5"/>'
        )
        parts.append(f'<circle cx="{mean:.1f}" cy="{y:.1f}" r="5" fill="{INK}"/>')
        parts.append(_text(LABEL_WIDTH + PLOT_WIDTH + 10, y + 4, f"{value.mean:.3f}"))
    return _svg(width, height, parts, title)


def threshold_plot(points: Sequence[Point], recommended: Recommendation, *, title: str) -> str:
    """Precision, recall and what is answered wrongly, by threshold, with the recommended point and its interval."""
    highest = max((point.threshold for point in points), default=1.0)
    right = max(0.1, min(1.0, highest))
    lines = [
        Line("kept (recall)", BLUE, [(point.threshold / right, point.kept) for point in points]),
        Line("precision", GREEN, [(point.threshold / right, point.precision) for point in points]),
        Line("answered wrongly", ORANGE, [(point.threshold / right, point.answered) for point in points]),
    ]
    size, left = CURVE_SIZE, 46
    parts = [_text(left, 16, title, weight="bold")]
    low, at, high = (left + min(1.0, max(0.0, one / right)) * size for one in _marks(recommended))
    parts.append(
        f'<rect x="{low:.1f}" y="28" width="{max(high - low, 1):.1f}" height="{size}" fill="{GREY}" opacity="0.4"/>'
    )
    parts.append(f'<line x1="{at:.1f}" y1="28" x2="{at:.1f}" y2="{28 + size}" stroke="{INK}" stroke-dasharray="4 3"/>')
    for tick in TICKS:
        y, x = 28 + size * (1 - tick), left + tick * size
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + size}" y2="{y:.1f}" stroke="{GREY}" opacity="0.6"/>')
        parts.append(_text(left - 8, y + 4, f"{tick:.1f}", anchor="end"))
        parts.append(_text(x, 28 + size + 18, f"{tick * right:.2f}", anchor="middle"))
    parts.append(_text(left + size / 2, 28 + size + 38, "threshold", anchor="middle"))
    for number, line in enumerate(lines):
        path = " ".join(f"{left + x * size:.1f},{28 + size * (1 - y):.1f}" for x, y in _steps(line.points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"/>')
        parts.append(_text(left + size + 12, 44 + 18 * number, line.name, fill=line.colour))
    note = f"{recommended.point.threshold:.3f} [{recommended.low:.3f}, {recommended.high:.3f}]"
    parts.append(_text(left + size + 12, 44 + 18 * len(lines), note))
    return _svg(left + size + 170, size + 80, parts, title)


def _marks(recommended: Recommendation) -> tuple[float, float, float]:
    return recommended.low, recommended.point.threshold, recommended.high


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most a few hundred points: more cannot be seen. NaN (no such questions) is left out."""
    step = max(1, len(points) // 300)
    return [(x, y) for place, (x, y) in enumerate(points) if y == y and (place % step == 0 or place == len(points) - 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal", fill: str = INK) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" {FONT} text-anchor="{anchor}" font-weight="{weight}" fill="{fill}">'
        f"{escape(text)}</text>"
    )


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n{inside}\n</svg>\n'
    )
