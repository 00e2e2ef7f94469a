"""``manage.py calibrate``: a project's own weights and thresholds instead of the shipped ones."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from rag.calibration import (
    Calibration,
    Noise,
    calibrate,
    calibrate_by_noise,
    calibration_json,
    noise_json,
    revert,
)
from rag.calibration.chunk_sizes import ChunkSizeSweep, scaled, sweep_chunk_sizes, sweep_json, usual_sizes
from rag.calibration.thresholds import Thresholds
from rag.core.calibration import Judged
from rag.core.chunking.text import ChunkSizes
from rag.core.errors import InvalidInput
from rag.core.types import Scope
from rag.evaluation import read_dataset, read_questions
from rag.evaluation.page import PROMISE
from rag.management.base import RagCommand, UsageError, printable
from rag.management.commands.evaluate import file_to_write, write_file
from rag.management.progress import ProgressDisplay
from rag.projects import find_project


class Command(RagCommand):
    """Calibrate a project."""

    help = (
        "Choose a project's weights, similarity floor, lexical signal, thresholds and RRF's k by its own labelled\n"
        "questions (as evaluate reads them), judged by questions that were held out. Without questions: set the\n"
        "thresholds so that few general questions still get an answer. The profile goes into force at once and is\n"
        "named in every answer; --revert takes it back. With --dataset: compare chunk sizes on a collection: slow,\n"
        "since every size is embedded anew; nothing is changed."
    )
    example = """
calibrate harbour
calibrate harbour questions.jsonl --picture threshold.svg
calibrate harbour --revert
calibrate --dataset /data/handbook --chunk-size 600/75 --chunk-size 2400/300 --vectors vectors.sqlite
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", nargs="?", metavar="SLUG", help="the project")
        parser.add_argument("questions", nargs="?", type=Path, metavar="QUESTIONS.jsonl", help="its labelled questions")
        parser.add_argument("--revert", action="store_true", help="go back to the shipped profile")
        parser.add_argument("--dry-run", action="store_true", help="show what would be chosen, change nothing")
        parser.add_argument(
            "--picture", type=file_to_write, metavar="FILE.svg", help="write precision and recall by threshold"
        )
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            choices=[str(scope) for scope in Scope],
            help="where questions look that name no scope themselves (repeatable)",
        )
        parser.add_argument("--dataset", type=Path, metavar="DIR", help="a collection in the BEIR layout")
        parser.add_argument(
            "--chunk-size",
            action="append",
            type=chunk_size,
            metavar="TARGET/OVERLAP",
            help="a size to try beside the configured one, in characters (repeatable; default: half and double the "
            "target, no overlap and a double one)",
        )
        parser.add_argument(
            "--vectors", type=Path, metavar="FILE", help="keep the collection's vectors in this SQLite file"
        )
        parser.add_argument("--no-embed", action="store_true", help="compute no vectors: use those of --vectors alone")
        parser.add_argument(
            "--allow-remote-embedding",
            action="store_true",
            help="the collection's texts may be sent to an embedding provider on another machine",
        )
        self.add_json_option(parser, of="the outcome")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
        if options["dataset"] is not None:
            self._sweep(options)
            return
        for name in ("chunk_size", "vectors", "no_embed", "allow_remote_embedding"):
            if options[name]:
                raise UsageError(f"--{name.replace('_', '-')} goes with --dataset.")
        if options["project"] is None:
            raise UsageError("Name a project, or --dataset DIR (see calibrate --help).")
        project = find_project(slug=options["project"])
        if options["revert"]:
            if options["questions"] is not None or options["dry_run"]:
                raise UsageError("--revert goes alone.")
            was_calibrated = revert(project=project)
            if options["json"]:
                self.write_json({"reverted": was_calibrated})
            else:
                self.stdout.write(
                    f"{project.slug} uses the shipped profile"
                    + (" again." if was_calibrated else "; it was not calibrated.")
                )
            return
        with ProgressDisplay(self.stderr) as display:
            if options["questions"] is None:
                if options["picture"] is not None or options["scope"]:
                    raise UsageError("--picture and --scope need a question file.")
                noise = calibrate_by_noise(project=project, apply=not options["dry_run"], watch=display.show)
                outcome, lines = noise_json(noise), noise_lines(noise)
            else:
                calibration = calibrate(
                    project=project,
                    questions=read_questions(options["questions"], scopes=options["scope"]),
                    name=options["questions"].name,
                    apply=not options["dry_run"],
                    watch=display.show,
                )
                outcome, lines = calibration_json(calibration), calibration_lines(calibration)
                if options["picture"] is not None:
                    write_file(options["picture"], calibration.picture)
        if options["json"]:
            self.write_json(outcome)
            return
        for line in lines:
            self.stdout.write(printable(line))
        if not options["dry_run"]:
            self.stdout.write(f"In force now. Back again: manage.py calibrate {project.slug} --revert")

    def _sweep(self, options: dict[str, Any]) -> None:
        if options["project"] is not None or any(options[name] for name in ("revert", "dry_run", "picture", "scope")):
            raise UsageError("--dataset goes without a project and what belongs to one.")
        with ProgressDisplay(self.stderr) as display:
            sweep = sweep_chunk_sizes(
                dataset=read_dataset(options["dataset"]),
                sizes=options["chunk_size"] or usual_sizes(),
                vectors=options["vectors"],
                embed=not options["no_embed"],
                allow_remote=options["allow_remote_embedding"],
                watch=display.show,
            )
        if options["json"]:
            self.write_json(sweep_json(sweep))
            return
        for line in sweep_lines(sweep):
            self.stdout.write(printable(line))


def chunk_size(text: str) -> ChunkSizes:
    """An argument type: ``TARGET/OVERLAP``."""
    target, _, overlap = text.partition("/")
    if not (target.isascii() and target.isdigit() and overlap.isascii() and overlap.isdigit()):
        raise ArgumentTypeError(f"{text!r} is no TARGET/OVERLAP, like 600/75")
    try:
        return scaled(int(target), int(overlap))
    except InvalidInput as error:
        raise ArgumentTypeError(str(error)) from None


def sweep_lines(sweep: ChunkSizeSweep) -> Iterator[str]:
    """The sizes for people."""
    yield f"{sweep.dataset}: {sweep.questions} questions; nDCG@10 by chunk size, compared by {sweep.system}"
    for one in sweep.tried:
        means = ", ".join(f"{name} {mean.mean:.3f}" for name, mean in one.means.items())
        gain = "the configured size"
        if one is not sweep.tried[0]:
            found = one.gain
            gain = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p {one.corrected_p:.4f} (Holm)"
        yield f"  {one.sizes.target}/{one.sizes.overlap}: {one.chunks} chunks; {means}; {gain}"
    yield sweep.remark


def noise_lines(noise: Noise) -> Iterator[str]:
    """The noise for people."""
    yield f"{noise.questions} general questions asked of {noise.chunks} chunks"
    if noise.hybrid is None:
        yield f"thresholds unchanged: {noise.reason}"
    yield from _thresholds("threshold", noise.hybrid)
    yield from _thresholds("lexical threshold", noise.lexical)
    yield PROMISE


def calibration_lines(calibration: Calibration) -> Iterator[str]:
    """The calibration for people."""
    yield f"{calibration.answerable} answerable questions, {calibration.unanswerable} without an answer"
    if calibration.unresolved:
        missing = ", ".join(calibration.unresolved[:10])
        yield f"left out, since the index does not hold what they expect: {missing}"
    if calibration.floor is not None:
        floor = calibration.floor
        yield (
            f"random question-chunk pairs: mean cosine {floor.mean:.3f} [{floor.low:.3f}, {floor.high:.3f}]; "
            f"the model's floor is {calibration.default.floor:.3f}"
        )
    if calibration.weighted is not None:
        chosen = calibration.weighted.setting
        what = (
            f"{chosen.vector_weight:g} / {chosen.lexical_weight:g}, floor {chosen.floor:.3f}, {chosen.lexical_signal}"
        )
        yield f"weights: {_judged(calibration.weighted, what)}"
    if calibration.rrf is not None:
        yield f"RRF: {_judged(calibration.rrf, f'k {calibration.rrf.setting.rrf_k}')}"
    yield from _thresholds("threshold", calibration.thresholds)
    yield from _thresholds("lexical threshold", calibration.lexical_thresholds)
    yield from calibration.remarks
    yield PROMISE


def _judged(judged: Judged, chosen: str) -> str:
    gain = judged.gain
    verdict = "adopted" if judged.is_better else "not adopted"
    return (
        f"{chosen}, {verdict}: held-out nDCG@10 {judged.calibrated.mean():.3f} against the default's "
        f"{judged.default.mean():.3f}, gain {gain.mean:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
    )


def _thresholds(name: str, thresholds: Thresholds | None) -> Iterator[str]:
    """A line a language of the question."""
    if thresholds is None:
        return
    for language, value in thresholds.values().items():
        placed = thresholds.by_questions.get(language)
        if placed is not None:
            held_out = placed.held_out
            yield (
                f"{name} for questions in {language}: {value:.3f} [{placed.recommended.low:.3f}, "
                f"{placed.recommended.high:.3f}]; held out, {held_out.kept:.1%} of {placed.answerable} answerable "
                f"questions keep an answer, {held_out.answered:.1%} of {placed.unanswerable} others get one"
            )
        else:
            noise = thresholds.by_noise[language]
            yield (
                f"{name} for questions in {language}: {value:.3f} [{noise.low:.3f}, {noise.high:.3f}], "
                "by general questions"
            )
