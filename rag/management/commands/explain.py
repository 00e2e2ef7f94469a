"""``manage.py explain``: why a passage was not answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser
from django.template.defaultfilters import pluralize
from rich.console import Console
from rich.text import Text

from rag.core.errors import InvalidInput
from rag.core.fusion import FUSIONS, Fused
from rag.core.types import Scope
from rag.explain import Cause, Explanation, Passage, explain, explanation_json, parse_target
from rag.explain.deciding import cite
from rag.management.base import RagCommand, UsageError, printable, whole_number
from rag.projects import find_project
from rag.search import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT

#: Lines of a file: more than any that is indexed has.
MOST_LINES = 100_000_000


class Command(RagCommand):
    """Explain a miss."""

    help = (
        "Say why a passage is not in the answer to a question, or at which place it is: never indexed, left out by a\n"
        "filter, not embedded, not among the candidates, below the threshold, or outranked, and by what. It asks as\n"
        "search does, with the same options; a --symbol is looked for as search_code does."
    )
    example = (
        'explain harbour "when is a refund issued" --path docs/refunds.md --line 12\n'
        'explain harbour "where is the file path validated?" --symbol src/paths.py#safe_join --json'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
        parser.add_argument("query", metavar="QUERY", help="the question")
        target = parser.add_argument_group("the passage (one of)")
        target.add_argument("--path", default="", metavar="P", help="a file, or session/event as a hit is cited")
        target.add_argument("--chunk", default="", metavar="ID", help="a chunk's id, as search --json prints it")
        target.add_argument("--symbol", default="", metavar="P#NAME", help="a symbol of a source file")
        parser.add_argument("--line", type=whole_number(1, MOST_LINES), metavar="N", help="only this line of --path")
        parser.add_argument(
            "--scope",
            action="append",
            choices=[str(scope) for scope in Scope],
            help=f"search only this scope (repeatable; default: {', '.join(DEFAULT_SCOPES)})",
        )
        parser.add_argument("--prefix", default="", metavar="PREFIX", help="search only paths that begin with this")
        parser.add_argument("--session", default="", metavar="ID", help="search only this session")
        parser.add_argument("--exclude", action="append", default=[], metavar="PHRASE", help="must not occur")
        parser.add_argument("--fusion", choices=FUSIONS, help="default: weighted, and rrf for code alone")
        parser.add_argument(
            "--limit", type=whole_number(1, MAX_LIMIT), default=DEFAULT_LIMIT, metavar="N", help="hits asked for"
        )
        self.add_json_option(parser, of="the explanation")

    def handle(self, **options: Any) -> None:
        """Print the explanation."""
        try:
            target = parse_target(
                path=options["path"], line=options["line"], chunk=options["chunk"], symbol=options["symbol"]
            )
        except InvalidInput as error:
            raise UsageError(str(error)) from None
        found = explain(
            project=find_project(slug=options["project"]),
            query=options["query"],
            target=target,
            scopes=options["scope"],
            fusion=options["fusion"],
            limit=options["limit"],
            path_prefix=options["prefix"],
            session_id=options["session"],
            exclude=options["exclude"],
        )
        if options["json"]:
            self.write_json(explanation_json(found))
            return
        console = Console(file=sys.stdout, highlight=False, soft_wrap=True, no_color=options["no_color"] or None)
        for line in lines(found):
            console.print(line)


def lines(found: Explanation) -> Iterator[Text]:
    """The explanation for people: the cause first, then what it rests on."""
    answered = found.cause is Cause.ANSWERED
    verdict = "answered" if answered else f"not answered: {found.cause.replace('_', ' ')}"
    yield Text.assemble((printable(str(found.target)), "bold cyan"), "  ", (verdict, "green" if answered else "red"))
    for number, reason in enumerate(found.reasons):
        yield Text(f"{'   ' if number == 0 else '   and: '}{printable(reason.message)}")
        if reason.remedy:
            yield Text(f"   → {printable(reason.remedy)}", style="green")
    for note in found.notes:
        yield Text(f"   note: {printable(note)}", style="yellow")
    for passage in found.passages:
        yield Text(_passage(passage, found))
    if found.total > len(found.passages) > 0:
        more = found.total - len(found.passages)
        yield Text(f"   … and {more} more passage{pluralize(more)}, further from being answered")
    if found.before:
        yield Text("before it:" if found.total else "answered instead:", style="bold")
    for place, (chunk, fused) in enumerate(found.before, start=1):
        yield Text(f"   {place}. {printable(cite(chunk))}  {_scores(fused)}")


def _passage(passage: Passage, found: Explanation) -> str:
    facts, search = passage.facts, found.search
    vector = _signal(facts.vector_score, facts.vector_rank, search.vector_ranked)
    lexical = _signal(facts.lexical_score, facts.lexical_rank, search.lexical_ranked)
    score = f"{facts.score:.4f}" if search.fusion == "rrf" else f"{facts.score:.3f}"
    cause = passage.reasons[0].cause.replace("_", " ")
    lines = f"{facts.chunk.start_line}–{facts.chunk.end_line}"
    where = f"{cite(facts.chunk)}" if facts.chunk.session_key else f"{facts.chunk.origin_key}:{lines}"
    name = facts.chunk.symbol or " > ".join(facts.chunk.heading_path)
    signals = f"score {score}: vector {vector}, lexical {lexical}; "
    if passage.reasons[0].cause is Cause.OTHER_SCOPE:
        # The words of other scopes are not compared: half a score would mislead.
        signals = ""
    return f"   {printable(where)}  {printable(name)}\n      {signals}{cause}"


def _signal(score: float | None, rank: int | None, ranked: int) -> str:
    if score is None:
        return "none"
    return f"{score:.3f} ({f'rank {rank} of {ranked}' if rank else 'in no ranking'})"


def _scores(fused: Fused) -> str:
    vector = "none" if fused.vector_score is None else f"{fused.vector_score:.3f}"
    lexical = "none" if fused.lexical_score is None else f"{fused.lexical_score:.3f}"
    return f"score {fused.score:.4f} (vector {vector}, lexical {lexical})"
