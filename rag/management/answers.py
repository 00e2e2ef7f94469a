"""An answer on a terminal: the citation, the heading trail, both signals, and the passage with its marked words."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rag.core.types import FileOrigin
from rag.management.base import printable
from rag.search import NOTHING_INDEXED, Hit, SearchAnswer

#: Lines of a passage that are shown; ``--json`` has it whole.
SHOWN_LINES = 12


def print_answer(answer: SearchAnswer) -> None:
    """Print for people: coloured on a terminal, plain when piped."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    for note in notes(answer):
        console.print(Text(note, style="yellow"))
    if not answer.hits:
        console.print(Text("No passage answers this."))
    for number, hit in enumerate(answer.hits, start=1):
        if number > 1:
            console.print()
        console.print(
            Text.assemble((f"{number}. ", "bold"), (printable(citation(hit)), "bold cyan"), f"  [{hit.scope}]")
        )
        trail = heading_trail(hit)
        if trail:
            console.print(Text(f"   {printable(trail)}"))
        console.print(Text(f"   {scores(hit)}", style="dim"))
        for line in passage(hit):
            console.print(line)


def notes(answer: SearchAnswer) -> Iterator[str]:
    """What the answer lacks."""
    if answer.vector_unavailable_reason == NOTHING_INDEXED:
        yield NOTHING_INDEXED
    elif not answer.vector_available:
        yield f"Lexical search only: {answer.vector_unavailable_reason}"
    if not answer.lexical_available:
        yield "Vector search only: the question has no word that is not a stop word."
    if answer.vector_unavailable_reason != NOTHING_INDEXED:
        yield from answer.gaps.notes()


def citation(hit: Hit) -> str:
    """``path:line`` or ``session/event``."""
    if isinstance(hit.origin, FileOrigin):
        return f"{hit.origin.source_path}:{hit.origin.start_line}"
    return f"{hit.origin.session_id}/{hit.origin.event_id}"


def heading_trail(hit: Hit) -> str:
    """The headings above the passage, the symbol it is, or the session's title."""
    if not isinstance(hit.origin, FileOrigin):
        return hit.origin.title
    return hit.origin.symbol or " > ".join(hit.origin.heading_path) or hit.origin.title


def scores(hit: Hit) -> str:
    """The score and what each signal gave to it."""
    vector = "none" if hit.vector_score is None else f"{hit.vector_score:.2f}"
    lexical = "none" if hit.lexical_score is None else f"{hit.lexical_score:.2f}"
    return f"score {hit.score:.3f} (vector {vector}, lexical {lexical})"


def passage(hit: Hit) -> Iterator[Text]:
    """The passage's lines, indented, with the question's words marked."""
    start = 0
    lines = hit.content.split("\n")
    for line in lines[:SHOWN_LINES]:
        # A file with Windows line ends is shown without them.
        end = start + len(line.removesuffix("\r"))
        shown = Text("   ")
        at = start
        for first, last in hit.highlights:
            first, last = max(first, start), min(last, end)
            if first < last:
                shown.append(printable(hit.content[at:first], keep="\t"))
                shown.append(printable(hit.content[first:last], keep="\t"), style="bold green")
                at = last
        shown.append(printable(hit.content[at:end], keep="\t"))
        yield shown
        start += len(line) + 1
    if len(lines) > SHOWN_LINES:
        yield Text(f"   … {len(lines) - SHOWN_LINES} more lines")
