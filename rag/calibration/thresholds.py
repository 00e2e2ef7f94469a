"""Where thresholds should stand, language by language: by questions with and without an answer, else by the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag.core.answerability import (
    FOREIGN_NOISE_PERCENTILE,
    NOISE_PERCENTILE,
    Point,
    Recommendation,
    auc,
    best_threshold,
    curve,
    noise_threshold,
    point,
    recommend,
)
from rag.core.evaluation import Values, folds
from rag.core.fusion import FusionProfile
from rag.core.noise_questions import NOISE_QUESTIONS
from rag.core.profiles import ModelProfile
from rag.core.question_language import question_language
from rag.evaluation.asked import Asked
from rag.models import Language

#: Fewer questions of either kind cannot place a threshold: one of them would move its share by a tenth.
FEWEST_OF_A_KIND = 10
FOLDS = 10
#: Digits of a stored threshold: finer ones are within any interval.
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which the general questions may move a threshold."""

    lowest: float = 0.0
    #: For questions in the documents' language; ``None``: not known. In another language all scores are lower.
    highest: float | None = None


#: Of lexical thresholds, whatever the model. Below the shipped 0.2 any word in common would do (general questions in
#: another alphabet score 0). 0.35 is what 95 % of the answerable questions reach in each of six sets of nine; the bank
#: alone asks for up to 0.65 where the documents are of general knowledge, and refuses a third (docs/evaluation.md).
LEXICAL_BOUNDS = Bounds(lowest=FusionProfile().lexical_threshold, highest=0.35)


def hybrid_bounds(model: ModelProfile, profile: FusionProfile) -> Bounds:
    """The bounds of hybrid thresholds: known for measured models, at the weights and floor of then."""
    shipped = FusionProfile(floor=model.similarity_floor)
    of_scale = ("vector_weight", "lexical_weight", "floor", "lexical_signal")
    is_shipped = all(getattr(profile, name) == getattr(shipped, name) for name in of_scale)
    return Bounds(highest=model.highest_threshold if is_shipped else None)


@dataclass(frozen=True, slots=True)
class Threshold:
    """A recommended threshold, the whole curve, and what such a threshold does to held-out questions."""

    recommended: Recommendation
    curve: tuple[Point, ...]
    held_out: Point
    auc: float
    answerable: int
    unanswerable: int


@dataclass(frozen=True, slots=True)
class Thresholds:
    """One signal's thresholds by the language of the question; ``main`` is the language that others fall back on."""

    main: str
    by_noise: Mapping[str, Recommendation]
    by_questions: Mapping[str, Threshold] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The threshold for questions whose language has none of its own."""
        return self.values()[self.main]

    def values(self) -> dict[str, float]:
        """By language the threshold in force."""
        found = {language: one.point.threshold for language, one in self.by_noise.items()}
        found |= {language: one.recommended.point.threshold for language, one in self.by_questions.items()}
        return {language: round(value, DIGITS) for language, value in found.items()}


def bank() -> list[Asked]:
    """The general questions, as questions without an answer."""
    return [
        Asked(id=f"general-{language}-{number}", text=text, answerable=False)
        for language, questions in NOISE_QUESTIONS.items()
        for number, text in enumerate(questions, start=1)
    ]


def bank_languages() -> list[str]:
    """The language of each question of ``bank``."""
    return [language for language, questions in NOISE_QUESTIONS.items() for _ in questions]


def by_noise(scores: Values, *, language: str, bounds: Bounds) -> Thresholds:
    """Thresholds from the bank's best scores, in the order of ``bank``; NaN for a question that was not asked.

    ``language`` is the project's: its part of the bank stands for questions whose language cannot be told. Without one
    (``simple``) the documents' language is the one whose questions score highest. A language that the bank does not
    speak has all of the bank. Of a language whose questions were not asked there is none; the project's has all that
    were. Raises ``ValueError`` where no question was asked.
    """
    languages, asked = np.array(bank_languages()), np.isfinite(scores)
    by_name = {name: found for name in NOISE_QUESTIONS if len(found := scores[asked & (languages == name)])}
    own = language
    if language == Language.SIMPLE and by_name:
        own = max(by_name, key=lambda name: float(np.median(by_name[name])))
    found = {name: _by_noise(each, own=name == own, bounds=bounds) for name, each in by_name.items()}
    if language not in found:
        found[language] = found[own] if own in found else _by_noise(scores[asked], own=True, bounds=bounds)
    return Thresholds(main=language, by_noise=found)


def _by_noise(scores: Values, *, own: bool, bounds: Bounds) -> Recommendation:
    return noise_threshold(
        scores,
        percentile=NOISE_PERCENTILE if own else FOREIGN_NOISE_PERCENTILE,
        lowest=bounds.lowest,
        highest=bounds.highest if own else None,
    )


def by_questions(noise: Thresholds, asked: Sequence[Asked], scores: Values, *, bank_scores: Values) -> Thresholds:
    """Thresholds by labelled questions for each language that has enough of them; the noise's stay for the others.

    A language without enough unanswerable questions of its own is set against the bank's of that language.
    """
    languages = np.array([question_language(one.text) or noise.main for one in asked])
    is_answerable = np.array([one.answerable for one in asked], dtype=bool)
    of_bank = np.array(bank_languages())
    found = {}
    for language in dict.fromkeys(languages.tolist()):
        mine = languages == language
        answerable, unanswerable = scores[mine & is_answerable], scores[mine & ~is_answerable]
        if len(unanswerable) < FEWEST_OF_A_KIND:
            unanswerable = np.concatenate([unanswerable, bank_scores[of_bank == language]])
        if min(len(answerable), len(unanswerable)) >= FEWEST_OF_A_KIND:
            found[language] = choose_threshold(answerable, unanswerable)
    return Thresholds(main=noise.main, by_noise=noise.by_noise, by_questions=found)


def choose_threshold(answerable: Values, unanswerable: Values) -> Threshold:
    """Choose by best scores, ``(n,)`` and ``(m,)``, at least one of each."""
    return Threshold(
        recommended=recommend(answerable=answerable, unanswerable=unanswerable),
        curve=tuple(curve(answerable=answerable, unanswerable=unanswerable)),
        held_out=_held_out(answerable, unanswerable),
        auc=auc(answerable=answerable, unanswerable=unanswerable),
        answerable=len(answerable),
        unanswerable=len(unanswerable),
    )


def by_language(hybrid: Thresholds | None, lexical: Thresholds) -> dict[str, dict[str, float]]:
    """The stored profile's ``byLanguage``, as ``rag.core.question_language.for_question`` reads it."""
    found: dict[str, dict[str, float]] = {}
    for name, thresholds in (("threshold", hybrid), ("lexical_threshold", lexical)):
        for language, value in thresholds.values().items() if thresholds is not None else ():
            found.setdefault(language, {})[name] = value
    return found


def _held_out(answerable: Values, unanswerable: Values) -> Point:
    """Every question judged by the threshold that the other folds choose."""
    kept = np.zeros(len(answerable), dtype=bool)
    answered = np.zeros(len(unanswerable), dtype=bool)
    used = []
    parts = zip(folds(len(answerable), FOLDS), folds(len(unanswerable), FOLDS), strict=True)
    for mine, other in parts:
        threshold = best_threshold(answerable=np.delete(answerable, mine), unanswerable=np.delete(unanswerable, other))
        used.append(threshold)
        kept[mine] = answerable[mine] >= threshold
        answered[other] = unanswerable[other] >= threshold
    one = point(0.5, answerable=kept * 1.0, unanswerable=answered * 1.0)
    return Point(float(np.mean(used)), one.kept, one.answered, one.precision)
