"""``manage.py evaluate``: how well the search finds what answers."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import pluralize
from rich.console import Console
from rich.table import Table

from rag.conf import conf
from rag.core.chunking.text import ChunkSizes
from rag.core.types import Scope
from rag.evaluation import (
    Evaluated,
    evaluate_dataset,
    evaluate_project,
    evaluation_json,
    evaluation_page,
    read_dataset,
    read_questions,
)
from rag.evaluation.metrics import METRICS
from rag.evaluation.outcome import COMPARED_METRIC
from rag.management.base import RagCommand, UsageError, printable, whole_number
from rag.management.progress import ProgressDisplay
from rag.models import Language
from rag.projects import find_project


class Command(RagCommand):
    """Measure the search."""

    help = (
        "Compare BM25, ts_rank, the vector signal and both fusions on labelled questions: nDCG@10, MRR@10 and recall,\n"
        "with 95 % intervals and paired differences. Either on a collection in the BEIR layout (corpus.jsonl,\n"
        "queries.jsonl, qrels.tsv), which is indexed for the time of the call alone, or on a project with its own\n"
        'questions, one a line: {"question": "…", "path": "docs/a.md", "heading": "…", "symbol": "…", "event": "…"}\n'
        '(one of the last four at least), or {"question": "…", "answerable": false}.'
    )
    example = """
evaluate --dataset /data/scifact --vectors /data/vectors.sqlite
evaluate harbour questions.jsonl --html report.html
evaluate --dataset /data/scifact --chunk-target 800 --chunk-overlap 100 --json
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", nargs="?", metavar="SLUG", help="the project")
        parser.add_argument("questions", nargs="?", type=Path, metavar="QUESTIONS.jsonl", help="its labelled questions")
        parser.add_argument("--dataset", type=Path, metavar="DIR", help="a collection in the BEIR layout")
        parser.add_argument(
            "--language",
            choices=Language.values,
            metavar="LANGUAGE",
            help="of the collection's text search (default: guessed from its stop words): "
            + ", ".join(Language.values),
        )
        parser.add_argument(
            "--vectors",
            type=Path,
            metavar="FILE",
            help="keep the collection's vectors in this SQLite file and take from it what it has",
        )
        parser.add_argument("--no-embed", action="store_true", help="compute no vectors: use those of --vectors alone")
        parser.add_argument(
            "--allow-remote-embedding",
            action="store_true",
            help="the collection's texts may be sent to an embedding provider on another machine",
        )
        parser.add_argument(
            "--chunk-target", type=whole_number(50, 8000), metavar="N", help="cut the collection to N characters"
        )
        parser.add_argument(
            "--chunk-overlap", type=whole_number(0, 4000), metavar="N", help="with N characters overlap"
        )
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=[str(scope) for scope in Scope],
            help="where a project's questions look that name no scope themselves (repeatable)",
        )
        parser.add_argument("--html", type=file_to_write, metavar="FILE", help="write a page with plots as well")
        self.add_json_option(parser, of="the figures")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
        with ProgressDisplay(self.stderr) as display:
            found = self._evaluate(options, display)
        if options["html"] is not None:
            write_file(options["html"], evaluation_page(found))
        if options["json"]:
            self.write_json(evaluation_json(found))
        else:
            print_evaluation(found)

    def _evaluate(self, options: dict[str, Any], display: ProgressDisplay) -> Evaluated:
        if options["dataset"] is not None:
            if options["project"] is not None or options["scope"]:
                raise UsageError("Either a project with its questions or --dataset, not both (see evaluate --help).")
            return evaluate_dataset(
                dataset=read_dataset(options["dataset"]),
                language=options["language"],
                sizes=_sizes(options["chunk_target"], options["chunk_overlap"]),
                vectors=options["vectors"],
                embed=not options["no_embed"],
                allow_remote=options["allow_remote_embedding"],
                watch=display.show,
            )
        if options["project"] is None or options["questions"] is None:
            raise UsageError("Name a project and its question file, or --dataset DIR (see evaluate --help).")
        for name in ("language", "vectors", "no_embed", "chunk_target", "chunk_overlap", "allow_remote_embedding"):
            if options[name]:
                raise UsageError(f"--{name.replace('_', '-')} goes with --dataset: a project has its own.")
        return evaluate_project(
            project=find_project(slug=options["project"]),
            questions=read_questions(options["questions"], scopes=options["scope"]),
            name=options["questions"].name,
            watch=display.show,
        )


def print_evaluation(found: Evaluated) -> None:
    """Print for people: a table, the paired differences, and what is missing."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    console.print(printable(f"{found.name}: {found.questions} questions, {found.chunks} chunks"), markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("system")
    for metric in METRICS:
        table.add_column(metric, justify="right")
    for system, one in found.intervals().items():
        cells = [f"{one[metric].mean:.3f} ±{(one[metric].high - one[metric].low) / 2:.3f}" for metric in METRICS]
        table.add_row(system, *cells)
    console.print(table)
    for line in remarks(found):
        console.print(printable(line), markup=False)


def remarks(found: Evaluated) -> Iterator[str]:
    """Everything beside the table, a line each."""
    for each in found.comparisons():
        about = each.difference
        verdict = "" if each.corrected_p < 0.05 else "  (may be chance)"
        yield (
            f"{each.system} − {each.against}: {COMPARED_METRIC} {about.mean:+.3f} "
            f"[{about.low:+.3f}, {about.high:+.3f}], p = {each.corrected_p:.4f}{verdict}"
        )
    answering = found.answering
    if answering.kept is not None:
        yield f"threshold {answering.threshold:.2f}: {answering.kept:.1%} of the answerable questions get an answer"
    if answering.answered is not None:
        auc = "" if answering.auc is None else f"; AUC {answering.auc:.3f}"
        yield f"{answering.answered:.1%} of the {found.unanswerable} unanswerable questions get one too{auc}"
    yield f"embedded {found.embedded} of {found.chunks} chunks ({found.model})"
    if found.reason:
        yield f"NOT ALL VECTORS: {found.reason}"
    if "language" in found.extra:
        yield f"text search: {found.extra['language']}"
    unresolved = found.extra.get("unresolved") or []
    if unresolved:
        yield (
            f"{len(unresolved)} question{pluralize(unresolved, ' expects,s expect')} what the index does not hold, "
            "and count as missed: " + ", ".join(unresolved[:10])
        )


def _sizes(target: int | None, overlap: int | None) -> ChunkSizes | None:
    if target is None and overlap is None:
        return None
    default = conf().chunk_sizes
    target = default.target if target is None else target
    overlap = default.overlap if overlap is None else overlap
    # The window keeps its share of the target: 200 of 1,200.
    window = min(default.window, max(1, target * default.window // default.target))
    return ChunkSizes(target=target, overlap=overlap, window=window)


def file_to_write(text: str) -> Path:
    """An argument type: a file in a folder that exists."""
    path = Path(text)
    if not path.absolute().parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {path.absolute().parent}")
    return path


def write_file(path: Path, text: str) -> None:
    """Write a text file, or say plainly why not."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.", returncode=1) from None
