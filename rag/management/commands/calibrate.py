"""``manage.py calibrate``: a project's own weights and thresholds instead of the shipped ones."""

from __future__ import annotations

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
from rag.calibration.thresholds import Thresholds
from rag.core.calibration import Judged
from rag.core.types import Scope
from rag.evaluation import read_questions
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
        "thresholds so that one general question in ten still gets an answer. The profile goes into force at once\n"
        "and is named in every answer; --revert takes it back."
    )
    example = """
calibrate harbour
calibrate harbour questions.jsonl --picture threshold.svg
calibrate harbour --revert
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
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
        self.add_json_option(parser, of="the outcome")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
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
